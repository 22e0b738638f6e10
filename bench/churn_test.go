package bench

import (
	"fmt"
	"testing"
	"time"
)

// BenchmarkChurn is a connection that comes and one that goes, among 100,000
// others: the oldest each time.
func BenchmarkChurn(b *testing.B) {
	const conns = 100_000
	for _, im := range everyone() {
		if im.most != 0 {
			continue // not by the million
		}
		b.Run(fmt.Sprintf("impl=%s/conns=%d", im.name, conns), func(b *testing.B) {
			d := im.open(usual(conns), inOrder)
			defer d.close()
			settle()
			b.ReportAllocs()
			i := 0
			for b.Loop() {
				d.remove(i)
				d.add(i, 30*time.Second)
				if i++; i == conns {
					i = 0
				}
			}
		})
	}
}

// BenchmarkSet replaces the deadline of a key that is pending.
func BenchmarkSet(b *testing.B) {
	for _, im := range keyeds {
		conns := counts[0]
		if im.name == "ouqiang" {
			continue // has no way to replace a timer
		}
		b.Run(fmt.Sprintf("impl=%s/conns=%d", im.name, conns), func(b *testing.B) {
			d := im.open(usual(conns), shuffled)
			defer d.close()
			settle()
			b.ReportAllocs()
			i := 0
			for b.Loop() {
				d.add(i, 30*time.Second)
				if i++; i == conns {
					i = 0
				}
			}
		})
	}
}
