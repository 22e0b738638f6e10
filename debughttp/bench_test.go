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

// What an end costs more that is watched.
func BenchmarkRecent(b *testing.B) {
	h := newHandler(b, newKeeper(b, keepalive.Config{}), Config{})
	b.ReportAllocs()
	for b.Loop() {
		h.recent.add(keepalive.End{At: time.Now(), Reason: keepalive.ReasonIdle})
	}
}
