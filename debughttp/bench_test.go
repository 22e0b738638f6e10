package debughttp

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net"
	"net/url"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/heartwheel-go/heartwheel/keepalive"
	"github.com/heartwheel-go/heartwheel/keepalive/adapter"
)

// silent is a connection with nothing but a guard.
type silent struct {
	stuck
	guard keepalive.Guard
}

func (s *silent) SafeContext() any { return &s.guard }

// guard begins to guard it.
func (s *silent) guardWith(k *keepalive.Keeper) error {
	return k.Bind(&s.guard, s, s, nil)
}

// The cost of a page with viewers: a snapshot at most once per 200 ms, and a look for the idlest
// at most a twentieth of the time.
func BenchmarkSnapshot(b *testing.B) {
	for _, conns := range []int{0, 10_000, 1_000_000} {
		k := newKeeper(b, keepalive.Config{Timeout: time.Hour})
		h := newHandler(b, k, Config{})
		all := make([]silent, conns)
		for i := range all {
			c := &all[i]
			require.NoError(b, c.guardWith(k))
			_, err := keepalive.Of(c).SetTimeout(time.Minute + rand.N(time.Minute))
			require.NoError(b, err)
		}
		name := fmt.Sprintf("conns=%d", conns)
		b.Run("part=snapshot/"+name, func(b *testing.B) {
			h.look.fresh = time.Now().Add(time.Hour)
			b.ReportAllocs()
			for b.Loop() {
				if _, _, err := h.encoded(); err != nil {
					b.Fatal(err)
				}
			}
		})
		b.Run("part=idlest/"+name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				h.look.fresh = time.Time{}
				h.look.refresh(h)
			}
		})
		k.Close()
	}
}

// peerless is a connection with an address and without a peer.
type peerless struct {
	silent
	label string
}

func (*peerless) Do(_ context.Context, _ adapter.Binding, f func()) error { f(); return nil }

// connectMany guards so many connections from as many addresses, touched over some time.
func connectMany(tb testing.TB, k *keepalive.Keeper, conns int) []peerless {
	all := make([]peerless, conns)
	for i := range all {
		c := &all[i]
		from := &net.TCPAddr{IP: net.IPv4(10, byte(i>>16), byte(i>>8), byte(i)), Port: 1024 + i%60000}
		require.NoError(tb, k.Bind(&c.guard, c, c, from))
	}
	return all
}

// A look at all connections for a page. Pages have the same cost, whatever their place.
func BenchmarkList(b *testing.B) {
	for _, conns := range []int{10_000, 100_000, 1_000_000} {
		k := newKeeper(b, keepalive.Config{Timeout: time.Hour})
		h := newHandler(b, k, Config{Label: func(conn any) string { return conn.(*peerless).label }})
		all := connectMany(b, k, conns)
		for i := range all {
			all[i].label = "client-" + strconv.Itoa(i)
		}
		for _, query := range []string{"sort=idle", "sort=addr", "sort=left", "addr=10.0.7.0%2F24", "label=client-77", "id=7777", "sort=addr&after=0-ffff0a000800-0-0"} {
			values, err := url.ParseQuery(query)
			require.NoError(b, err)
			b.Run(fmt.Sprintf("query=%s/conns=%d", query, conns), func(b *testing.B) {
				b.ReportAllocs()
				for b.Loop() {
					h.looks.next = time.Time{}
					q, err := parseQuery(values, false)
					require.NoError(b, err)
					l, err := h.list(b.Context(), &q)
					require.NoError(b, err)
					require.NotEmpty(b, l.Connections)
				}
			})
		}
		k.Close()
	}
}

// The cost of a short connection, without a watcher and with one.
func BenchmarkLife(b *testing.B) {
	for _, watched := range []bool{false, true} {
		b.Run(fmt.Sprintf("watched=%v", watched), func(b *testing.B) {
			k := newKeeper(b, keepalive.Config{})
			if watched {
				newHandler(b, k, Config{})
			}
			b.ReportAllocs()
			for b.Loop() {
				var c silent
				if err := c.guardWith(k); err != nil {
					b.Fatal(err)
				}
				if b := c.guard.Binding(); b.Release() {
					b.Closed(true)
				}
			}
		})
	}
}
