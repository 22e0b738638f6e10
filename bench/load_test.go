package bench

import (
	"fmt"
	"math/rand/v2"
	"runtime"
	"sync"
	"syscall"
	"testing"
	"time"
)

// BenchmarkCPU reports what a million connections cost in a second: each sends a
// heartbeat every 10 s, in another order each time, with a timeout of 30 s. What
// the loop itself costs, impl=none, is in all of them.
func BenchmarkCPU(b *testing.B) {
	const conns, every, timeout, window = 1_000_000, 10 * time.Second, 30 * time.Second, 8 * time.Second
	only := map[string]bool{"heartwheel": true, "go-zero": true, "time.Timer": true, "stdlazy": true, "flatsweep": true}
	for _, im := range append([]impl{{name: "none", make: newNone}}, everyone()...) {
		if im.name != "none" && !only[im.name] {
			continue
		}
		b.Run(fmt.Sprintf("impl=%s/conns=%d", im.name, conns), func(b *testing.B) {
			s := usual(conns)
			s.timeout = timeout
			d := im.make(s)
			defer d.close()
			for i := range conns {
				// As if they had been going on for long: what is moved lazily comes up
				// at any time, and nobody's deadline passes before the first beat.
				d.add(i, every+time.Second+rand.N(timeout-every))
			}
			beats := beater{every: every, conns: conns}
			beats.run(every, d.touch)
			runtime.GC()
			before := cpuTime()
			beats.run(window, d.touch)
			b.ReportMetric((cpuTime()-before).Seconds()*1000/window.Seconds(), "CPU-ms/s")
			b.ReportMetric(0, "ns/op")
		})
	}
}

type none struct{}

func newNone(setting) deadlines     { return none{} }
func (none) add(int, time.Duration) {}
func (none) touch(int)              {}
func (none) remove(int)             {}
func (none) close()                 {}

// beater calls a function for each connection once per interval, in small steps
// and in an order of its own in each interval.
type beater struct {
	every time.Duration
	conns int
	sent  int // so far
}

func (g *beater) run(d time.Duration, beat func(i int)) {
	start, first := time.Now(), g.sent
	for elapsed := time.Duration(0); elapsed < d; {
		time.Sleep(10 * time.Millisecond)
		elapsed = min(d, time.Since(start))
		for until := first + int(int64(g.conns)*int64(elapsed)/int64(g.every)); g.sent < until; g.sent++ {
			round, i := g.sent/g.conns, g.sent%g.conns
			// The factor has none of the divisors of a million.
			beat(int(uint64(i) * uint64(10*(7919+round)+1) % uint64(g.conns)))
		}
	}
}

func cpuTime() time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		panic(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// busy keeps all processors occupied and the garbage collector running until the
// function that it returns is called.
func busy() (stop func()) {
	quit := make(chan struct{})
	var done sync.WaitGroup
	for range runtime.GOMAXPROCS(0) {
		done.Go(func() {
			var kept [][]byte
			for {
				select {
				case <-quit:
					runtime.KeepAlive(kept)
					return
				default:
				}
				kept = kept[:0]
				for range 1000 {
					kept = append(kept, make([]byte, 1024))
				}
			}
		})
	}
	return func() {
		close(quit)
		done.Wait()
	}
}
