package bench

import (
	"fmt"
	"math/rand/v2"
	"runtime"
	"slices"
	"sync/atomic"
	"testing"
	"time"
)

// firing is when deadlines were set, when they were due, and when they fired.
type firing struct {
	start time.Time
	due   []time.Duration
	fired []atomic.Int64 // since start; 0 is not yet
	left  atomic.Int64
	done  chan struct{}
}

func newFiring(n int) *firing {
	f := &firing{start: time.Now(), due: make([]time.Duration, n), fired: make([]atomic.Int64, n), done: make(chan struct{})}
	f.left.Store(int64(n))
	return f
}

func (f *firing) expired(i int) {
	f.fired[i].Store(int64(time.Since(f.start)))
	if f.left.Add(-1) == 0 {
		close(f.done)
	}
}

// wait waits until all have fired, or until d has passed since the start.
func (f *firing) wait(d time.Duration) {
	select {
	case <-f.done:
	case <-time.After(d - time.Since(f.start)):
	}
}

// late returns by how much each was late, in order; what is negative was early.
// What has not fired is not among them.
func (f *firing) late() []time.Duration {
	var late []time.Duration
	for i, due := range f.due {
		if fired := f.fired[i].Load(); fired != 0 {
			late = append(late, time.Duration(fired)-due)
		}
	}
	slices.Sort(late)
	return late
}

func ms(d time.Duration) float64 { return float64(d) / 1e6 }

// BenchmarkAccuracy sets 100,000 deadlines of 1 to 3 s and reports how many of
// them fired early, and how late the others were.
func BenchmarkAccuracy(b *testing.B) {
	const conns = 100_000
	for _, load := range []string{"idle", "busy"} {
		for _, tick := range []time.Duration{100 * time.Millisecond, 10 * time.Millisecond} {
			for _, im := range everyone() {
				if !im.sets || im.name == "antlabs" && tick != 10*time.Millisecond || load == "busy" && tick != 10*time.Millisecond {
					continue
				}
				b.Run(fmt.Sprintf("impl=%s/tick=%v/load=%s", im.name, tick, load), func(b *testing.B) {
					if load == "busy" {
						defer busy()()
					}
					runtime.GC()
					f := newFiring(conns)
					d := im.make(setting{conns: conns, tick: tick, timeout: time.Second, expired: f.expired})
					defer d.close()
					for i := range conns {
						delay := time.Second + rand.N(2*time.Second)
						f.due[i] = time.Since(f.start) + delay
						d.add(i, delay)
					}
					f.wait(20 * time.Second)
					late := f.late()
					early, _ := slices.BinarySearch(late, 0)
					b.ReportMetric(100*float64(early)/conns, "early-%")
					b.ReportMetric(max(0, -ms(late[0])), "early-max-ms")
					b.ReportMetric(ms(late[len(late)/2]), "late-p50-ms")
					b.ReportMetric(ms(late[len(late)*99/100]), "late-p99-ms")
					b.ReportMetric(ms(late[len(late)-1]), "late-max-ms")
					b.ReportMetric(float64(conns-len(late)), "lost")
					b.ReportMetric(0, "ns/op")
				})
			}
		}
	}
}

// BenchmarkDrift sets one deadline of 3 s in each implementation, all at the same
// time, with a tick of 10ms and all processors busy.
func BenchmarkDrift(b *testing.B) {
	var impls []impl
	for _, im := range everyone() {
		if im.sets {
			impls = append(impls, im)
		}
	}
	var sets []deadlines
	f := newFiring(len(impls))
	for n, im := range impls {
		sets = append(sets, im.make(setting{
			conns: 1, tick: 10 * time.Millisecond, timeout: time.Second,
			expired: func(int) { f.expired(n) },
		}))
	}
	stop := busy()
	time.Sleep(time.Second)
	for n, d := range sets {
		f.due[n] = time.Since(f.start) + 3*time.Second
		d.add(0, 3*time.Second)
	}
	f.wait(20 * time.Second)
	stop()
	for n, im := range impls {
		sets[n].close()
		b.Run(fmt.Sprintf("impl=%s/tick=10ms/delay=3s", im.name), func(b *testing.B) {
			b.ReportMetric((time.Duration(f.fired[n].Load())-f.due[n]).Seconds()+3, "fired-after-s")
			b.ReportMetric(0, "ns/op")
		})
	}
}

// BenchmarkMassExpiry lets a million deadlines pass in the same moment, and
// reports how long after it the last was handed over, how many goroutines that
// took, and how late a deadline was that was due 300 ms later.
func BenchmarkMassExpiry(b *testing.B) {
	const conns = 1_000_000
	for _, im := range everyone() {
		if !im.sets || im.most != 0 {
			continue
		}
		b.Run(fmt.Sprintf("impl=%s/conns=%d", im.name, conns), func(b *testing.B) {
			f := newFiring(conns + 1)
			var goroutines atomic.Int64
			s := usual(conns + 1)
			s.expired = func(i int) {
				if i%1000 == 0 {
					goroutines.Store(max(goroutines.Load(), int64(runtime.NumGoroutine())))
				}
				f.expired(i)
			}
			d := im.make(s)
			defer d.close()
			runtime.GC()
			at := time.Since(f.start) + 3*time.Second
			for i := range conns {
				f.due[i] = at
				d.add(i, at-time.Since(f.start))
			}
			f.due[conns] = at + 300*time.Millisecond
			d.add(conns, f.due[conns]-time.Since(f.start))
			f.wait(30 * time.Second)
			probe := time.Duration(f.fired[conns].Load()) - f.due[conns]
			late := f.late()
			b.ReportMetric(ms(late[len(late)-1]-late[0]), "first-to-last-ms")
			b.ReportMetric(ms(late[len(late)-1]), "last-ms")
			b.ReportMetric(ms(probe), "probe-late-ms")
			b.ReportMetric(float64(goroutines.Load()), "goroutines")
			b.ReportMetric(0, "ns/op")
		})
	}
}

// BenchmarkBlocked lets ten deadlines pass at once whose functions block for
// 300 ms, and reports how late one of two ticks later was.
func BenchmarkBlocked(b *testing.B) {
	const blocked = 10
	for _, im := range everyone() {
		if !im.sets || im.name == "flatsweep" {
			continue // a sweep is its own hand
		}
		b.Run("impl="+im.name, func(b *testing.B) {
			f := newFiring(blocked + 1)
			d := im.make(setting{conns: blocked + 1, tick: 100 * time.Millisecond, timeout: time.Second, expired: func(i int) {
				f.expired(i)
				if i < blocked {
					time.Sleep(300 * time.Millisecond)
				}
			}})
			defer d.close()
			for i := range blocked + 1 {
				delay := time.Second
				if i == blocked {
					delay += 200 * time.Millisecond
				}
				f.due[i] = time.Since(f.start) + delay
				d.add(i, delay)
			}
			f.wait(10 * time.Second)
			b.ReportMetric(ms(time.Duration(f.fired[blocked].Load())-f.due[blocked]), "next-late-ms")
			b.ReportMetric(ms(f.late()[blocked]), "last-late-ms")
			b.ReportMetric(0, "ns/op")
		})
	}
}
