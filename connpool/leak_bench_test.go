package connpool

import (
	"context"
	"slices"
	"testing"
	"time"
)

// BenchmarkLeakAfter is a Get and a Put with and without LeakAfter, in turns.
func BenchmarkLeakAfter(b *testing.B) {
	var pools []*Pool[int]
	for _, after := range []time.Duration{0, time.Hour} {
		p, err := New(Config[int]{
			Dial:      func(context.Context) (int, error) { return 1, nil },
			Close:     func(int, Reason) {},
			MaxAge:    time.Hour,
			LeakAfter: after,
		})
		if err != nil {
			b.Fatal(err)
		}
		defer p.Close()
		pools = append(pools, p)
	}
	const uses = 1 << 8 // so short that the machine seldom takes the processor away
	ns := make([][]float64, len(pools))
	for b.Loop() {
		for i, p := range pools {
			start := time.Now()
			for range uses {
				l, err := p.Get(bg)
				if err == nil {
					err = l.Put()
				}
				if err != nil {
					b.Fatal(err)
				}
			}
			ns[i] = append(ns[i], float64(time.Since(start))/uses)
		}
	}
	b.ReportMetric(0, "ns/op")
	for i, name := range []string{"off-ns", "on-ns"} {
		slices.Sort(ns[i])
		b.ReportMetric(ns[i][len(ns[i])/2], name)
	}
}
