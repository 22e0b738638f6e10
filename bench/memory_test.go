package bench

import (
	"fmt"
	"runtime"
	"testing"
	"time"
)

// BenchmarkMemory reports what a million live deadlines take of the heap, and
// how much longer they make a garbage collection. The caller's handle or key,
// and the connection's number that is handed over, are the caller's and not
// counted.
func BenchmarkMemory(b *testing.B) {
	const conns = 1_000_000
	for _, im := range everyone() {
		if im.most != 0 {
			continue
		}
		b.Run(fmt.Sprintf("impl=%s/conns=%d", im.name, conns), func(b *testing.B) {
			s := usual(conns)
			s.timeout = 10 * time.Minute
			d := im.make(s) // makes the keys, and the place for the handles
			bytes, objects, gc := heap()
			for i := range conns {
				// Spread over a minute, as connections that came one by one.
				d.add(i, s.timeout+time.Duration(i%600)*s.tick)
			}
			moreBytes, moreObjects, longer := heap()
			d.close()
			b.ReportMetric(float64(moreBytes-bytes)/conns, "B/timer")
			b.ReportMetric(float64(moreObjects-objects)/conns, "objects/timer")
			b.ReportMetric(float64(longer-gc)/1e6, "GC-ms")
			b.ReportMetric(0, "ns/op")
		})
	}
}

// heap returns what is live, and the shortest time that a collection takes.
func heap() (bytes, objects int64, gc time.Duration) {
	for i := range 6 {
		start := time.Now()
		runtime.GC()
		if d := time.Since(start); i == 0 || d < gc {
			gc = d
		}
	}
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc), int64(m.HeapObjects), gc
}
