package debughttp

import (
	"fmt"
	"math/rand/v2"
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
	return adapter.Guard(k, &s.guard, s, s, nil, false)
}

// The cost of a page with viewers: a snapshot at most once per 200 ms, and a look for the idlest
// at most a twentieth of the time. This is the worst case: an earlier timeout was far longer
// than all others.
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
				if adapter.Release(&c.guard) {
					adapter.Closed(&c.guard, keepalive.ReasonPeer)
				}
			}
		})
	}
}
