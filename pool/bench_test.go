package pool

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// BenchmarkJoinWhenFull is a newcomer that takes the place of another member, or is refused since
// nobody is idle enough, and no pause spares it the search.
func BenchmarkJoinWhenFull(b *testing.B) {
	for _, members := range []int{1000, 100_000, 1_000_000} {
		for name, minIdle := range map[string]time.Duration{"evicts": time.Nanosecond, "refused": time.Hour} {
			b.Run(fmt.Sprintf("%s/members=%d", name, members), func(b *testing.B) {
				p := newTestPool(b, time.Hour, Config[int]{
					Capacity: members, Full: EvictIdlest, MinIdle: minIdle,
					Evict: func(m *Member[int], _ int) { m.Expire() },
				})
				for v := range members {
					_, err := p.Add(v)
					require.NoError(b, err)
				}
				time.Sleep(200 * time.Millisecond)
				b.ReportAllocs()
				for b.Loop() {
					p.eviction.pauseTo = 0
					_, _ = p.Add(-1)
				}
			})
		}
	}
}
