package bench

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"
)

// BenchmarkFiredAfter sets deadlines of a second at random instants, and reports how long after its call
// a deadline fired.
func BenchmarkFiredAfter(b *testing.B) {
	const conns, delay = 1000, time.Second
	for _, tick := range []time.Duration{10 * time.Millisecond, 100 * time.Millisecond, 500 * time.Millisecond, time.Second} {
		for _, im := range keyeds {
			if !im.sets {
				continue
			}
			b.Run(fmt.Sprintf("impl=%s/tick=%v", im.name, tick), func(b *testing.B) {
				f := newFiring(conns)
				d := im.make(setting{conns: conns, tick: tick, timeout: delay, expired: f.expired})
				defer d.close()
				for i := range conns {
					time.AfterFunc(rand.N(2*time.Second), func() {
						f.due[i] = time.Since(f.start)
						d.add(i, delay)
					})
				}
				f.wait(20 * time.Second)
				after := f.late()
				if len(after) < conns {
					b.Fatalf("%d of %d have fired", len(after), conns)
				}
				b.ReportMetric(ms(after[0]), "first-ms")
				b.ReportMetric(ms(after[len(after)/2]), "p50-ms")
				b.ReportMetric(ms(after[len(after)-1]), "last-ms")
				b.ReportMetric(0, "ns/op")
			})
		}
	}
}
