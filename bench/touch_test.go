package bench

import (
	"fmt"
	"runtime"
	"sync/atomic"
	"testing"
	"time"
)

var counts = []int{10_000, 100_000, 1_000_000}

// BenchmarkTouch moves deadlines forward, through a handle, one after the other.
// order=random means that connections speak in another order than they were
// opened in, so that their memory is cold where there are many.
func BenchmarkTouch(b *testing.B) {
	for _, conns := range counts {
		for _, im := range append([]impl{limit}, handles...) {
			benchTouch(b, im, conns, shuffled)
		}
		for _, im := range append([]impl{limit}, handles[:1]...) {
			benchTouch(b, im, conns, inOrder)
		}
	}
}

// BenchmarkMove is the same through a key.
func BenchmarkMove(b *testing.B) {
	for _, conns := range counts {
		for _, im := range keyeds {
			benchTouch(b, im, conns, shuffled)
		}
	}
}

func benchTouch(b *testing.B, im impl, conns int, o order) {
	if im.most != 0 && conns > im.most {
		if conns > counts[0] {
			return
		}
		conns = im.most
	}
	b.Run(fmt.Sprintf("impl=%s/conns=%d/order=%s", im.name, conns, o), func(b *testing.B) {
		d := im.open(usual(conns), o)
		defer d.close()
		settle()
		b.ReportAllocs()
		i := 0
		for b.Loop() {
			d.touch(i)
			if i++; i == conns {
				i = 0
			}
		}
	})
}

// settle lets the garbage of the preparations be collected before the clock runs.
func settle() { runtime.GC() }

// BenchmarkTouchNewTick is [BenchmarkTouch] where no deadline is touched twice
// within a tick, so that each touch has something to store. The clock stands
// still while the wheel's goes on.
func BenchmarkTouchNewTick(b *testing.B) {
	for _, conns := range counts {
		for _, im := range []impl{limit, handles[0]} {
			b.Run(fmt.Sprintf("impl=%s/conns=%d/order=%s", im.name, conns, shuffled), func(b *testing.B) {
				s := usual(conns)
				s.tick = time.Millisecond
				d := im.open(s, shuffled)
				defer d.close()
				settle()
				b.ReportAllocs()
				i := 0
				for b.Loop() {
					d.touch(i)
					if i++; i == conns {
						i = 0
						b.StopTimer()
						time.Sleep(3 * s.tick / 2)
						b.StartTimer()
					}
				}
			})
		}
	}
}

// BenchmarkTouchParallel is [BenchmarkTouch] by as many goroutines as there are
// processors, each with connections of its own. Its time is per touch of all of
// them together: half of it where two do twice the work.
func BenchmarkTouchParallel(b *testing.B) {
	procs := runtime.GOMAXPROCS(0)
	for _, conns := range []int{counts[0], counts[2]} {
		impls := append([]impl{limit}, handles...)
		if conns == counts[0] {
			impls = append(impls, keyeds...)
		}
		for _, im := range impls {
			if im.most != 0 {
				continue
			}
			b.Run(fmt.Sprintf("impl=%s/conns=%d/order=%s", im.name, conns, shuffled), func(b *testing.B) {
				d := im.open(usual(conns), shuffled)
				defer d.close()
				settle()
				time.Sleep(200 * time.Millisecond) // the runtime puts its timers in order
				b.ReportAllocs()
				var goroutines atomic.Int32
				share := conns / procs
				b.ResetTimer()
				b.RunParallel(func(pb *testing.PB) {
					first := int(goroutines.Add(1)-1) % procs * share
					i := first
					for pb.Next() {
						d.touch(i)
						if i++; i == first+share {
							i = first
						}
					}
				})
				b.StopTimer() // before all is closed
			})
		}
	}
}
