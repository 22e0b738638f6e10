package debughttp

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/heartwheel-go/heartwheel/keepalive"
)

// silent is an adapter's connection that has nothing but a guard.
type silent struct{ keepalive.Guard }

func (s *silent) Guarded() *keepalive.Guard  { return &s.Guard }
func (s *silent) Due(*keepalive.Keeper, any) {}

// What a page costs that is looked at, at most once per 200 ms.
func BenchmarkSnapshot(b *testing.B) {
	for _, conns := range []int{0, 10_000, 1_000_000} {
		b.Run(fmt.Sprintf("conns=%d", conns), func(b *testing.B) {
			k := newKeeper(b, keepalive.Config{Timeout: time.Hour})
			h := newHandler(b, k, Config{})
			all := make([]silent, conns)
			for i := range all {
				require.NoError(b, k.Guard(&all[i].Guard, &all[i], keepalive.Origin{}))
			}
			b.ReportAllocs()
			for b.Loop() {
				body, _, err := h.encoded()
				if err != nil {
					b.Fatal(err)
				}
				b.ReportMetric(float64(len(body)), "bytes")
			}
		})
	}
}

// What a connection costs that comes and goes, and how much more where somebody watches.
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
				if err := k.Guard(&c.Guard, &c, keepalive.Origin{}); err != nil {
					b.Fatal(err)
				}
				if k.Release(&c.Guard) {
					k.Closed(&c.Guard, keepalive.ReasonPeer)
				}
			}
		})
	}
}
