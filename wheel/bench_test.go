package wheel

import (
	"fmt"
	"math/rand/v2"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"
)

// onOwnLine is a word with a cache line of its own.
type onOwnLine struct {
	atomic.Uint64
	_ [cacheLine - 8]byte
}

// toucher is an implementation of movable deadlines. touch takes the number of the
// connection.
type toucher struct {
	impl  string
	make  func(n int) (touch func(i int), newTick, done func())
	ticks bool // has a tick, within which a second touch may cost less
}

var touchers = []toucher{
	{impl: "limit", make: func(n int) (func(int), func(), func()) {
		// One atomic load and one atomic store: less is not possible.
		words := make([]onOwnLine, n)
		var clock onOwnLine
		return func(i int) { words[i].Store(clock.Load()) }, func() {}, func() {}
	}},
	{impl: "heartwheel", ticks: true, make: func(n int) (func(int), func(), func()) {
		w, err := newDue(Config{}, func(*TimerOf[int], int) {})
		if err != nil {
			panic(err)
		}
		timers := make([]*TimerOf[int], n)
		for i := range timers {
			timers[i], _ = w.Add(i, 30*time.Second)
		}
		return func(i int) { timers[i].Touch() }, func() { w.clock.now.Add(1) }, func() {}
	}},
	{impl: "time.Timer.Reset", make: func(n int) (func(int), func(), func()) {
		timers := make([]*time.Timer, n)
		for i := range timers {
			timers[i] = time.AfterFunc(time.Hour, func() {})
		}
		return func(i int) { timers[i].Reset(time.Hour) }, func() {}, func() {
			for _, t := range timers {
				t.Stop()
			}
		}
	}},
}

// BenchmarkTouch pushes deadlines forward in random order. With tick=new, each
// touch of a timer falls into another tick.
func BenchmarkTouch(b *testing.B) {
	for _, conns := range []int{10_000, 1_000_000} {
		order := make([]uint32, conns)
		for i, v := range rand.Perm(conns) {
			order[i] = uint32(v)
		}
		for _, impl := range touchers {
			ticks := []string{"same", "new"}
			if !impl.ticks {
				ticks = ticks[1:]
			}
			touch, newTick, done := impl.make(conns)
			for _, tick := range ticks {
				b.Run(fmt.Sprintf("impl=%s/conns=%d/tick=%s", impl.impl, conns, tick), func(b *testing.B) {
					b.ReportAllocs()
					i := 0
					for b.Loop() {
						touch(int(order[i]))
						if i++; i == conns {
							i = 0
							if tick == "new" {
								newTick()
							}
						}
					}
				})
			}
			done()
		}
	}
}

// BenchmarkAddRemove adds and removes one connection among others.
func BenchmarkAddRemove(b *testing.B) {
	for _, conns := range []int{0, 100_000} {
		b.Run(fmt.Sprintf("conns=%d", conns), func(b *testing.B) {
			w, err := newDue(Config{}, func(*TimerOf[int], int) {})
			if err != nil {
				b.Fatal(err)
			}
			for i := range conns {
				_, _ = w.Add(i, time.Duration(1+i%300)*100*time.Millisecond)
			}
			b.ReportAllocs()
			for b.Loop() {
				t, _ := w.Add(0, 30*time.Second)
				t.Remove()
			}
		})
	}
}

// BenchmarkKeyed is the keyed face, with keys of type string.
func BenchmarkKeyed(b *testing.B) {
	const keys = 10_000
	tw, err := NewTimingWheel(100*time.Millisecond, 600, func(string, int) {})
	if err != nil {
		b.Fatal(err)
	}
	defer tw.Stop()
	name := make([]string, keys)
	for i := range name {
		name[i] = fmt.Sprintf("session-%d", i)
		_ = tw.SetTimer(name[i], i, 30*time.Second)
	}
	rand.Shuffle(keys, func(i, j int) { name[i], name[j] = name[j], name[i] })
	for _, c := range []struct {
		op string
		do func(key string)
	}{
		{"MoveTimer", func(key string) { _ = tw.MoveTimer(key, 30*time.Second) }},
		{"SetTimer", func(key string) { _ = tw.SetTimer(key, 0, 30*time.Second) }},
	} {
		b.Run("op="+c.op, func(b *testing.B) {
			b.ReportAllocs()
			i := 0
			for b.Loop() {
				c.do(name[i])
				if i++; i == keys {
					i = 0
				}
			}
		})
	}
}

// BenchmarkMemory reports the memory of a timer, everything included but the caller's
// reference to it.
func BenchmarkMemory(b *testing.B) {
	f := func() {}
	b.Run("impl=heartwheel", func(b *testing.B) {
		reportMemory(b, func(delays []time.Duration) (timers []*Timer, done func()) {
			w, err := New(Config{})
			if err != nil {
				b.Fatal(err)
			}
			timers = make([]*Timer, len(delays))
			for i, d := range delays {
				timers[i] = w.AfterFunc(d, f)
			}
			return timers, w.Stop
		})
	})
	b.Run("impl=time.AfterFunc", func(b *testing.B) {
		reportMemory(b, func(delays []time.Duration) (timers []*time.Timer, done func()) {
			timers = make([]*time.Timer, len(delays))
			for i, d := range delays {
				timers[i] = time.AfterFunc(d, f)
			}
			return timers, func() {
				for _, t := range timers {
					t.Stop()
				}
			}
		})
	})
}

func reportMemory[T any](b *testing.B, start func(delays []time.Duration) (timers []*T, done func())) {
	const reference = 8
	delays := make([]time.Duration, 1_000_000)
	for i := range delays {
		delays[i] = time.Minute + time.Duration(1+i%300)*100*time.Millisecond
	}
	heap := func() (bytes, objects int64) {
		runtime.GC()
		runtime.GC()
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return int64(m.HeapAlloc), int64(m.HeapObjects)
	}
	bytes, objects := heap()
	timers, done := start(delays)
	moreBytes, moreObjects := heap()
	b.ReportMetric(float64(moreBytes-bytes)/float64(len(delays))-reference, "B/timer")
	b.ReportMetric(float64(moreObjects-objects)/float64(len(delays)), "objects/timer")
	b.ReportMetric(0, "ns/op")
	runtime.KeepAlive(delays)
	runtime.KeepAlive(timers)
	done()
}

// BenchmarkTick reports the work of the hand: nothing to do, and filing moved timers again.
func BenchmarkTick(b *testing.B) {
	for _, conns := range []int{0, 1_000_000} {
		b.Run(fmt.Sprintf("idle/conns=%d", conns), func(b *testing.B) {
			w, now := newStandingWheel(b)
			for i := range conns {
				_, _ = w.Add(i, 24*365*time.Hour)
			}
			for b.Loop() {
				*now += w.clock.tick
				w.advance()
			}
		})
	}
	for _, order := range []string{"random", "age"} {
		b.Run("refile/order="+order+"/conns=1000000", func(b *testing.B) {
			const conns = 1_000_000
			w, now := newStandingWheel(b)
			added := rand.Perm(conns)
			if order == "age" {
				slices.Sort(added)
			}
			timers := make([]*TimerOf[int], conns)
			addSpread(w, now, timers, added)
			begin := w.Stats().Refiled
			var spent time.Duration
			for b.Loop() {
				spent += revolve(w, now, timers)
			}
			b.ReportMetric(float64(spent.Nanoseconds())/float64(w.Stats().Refiled-begin), "ns/op")
		})
	}
	// Half a million touched timers of 30 s, alone or among as many of seven days.
	for _, levels := range []string{"512,64,64", "600"} {
		for _, conns := range []int{500_000, 1_000_000} {
			b.Run(fmt.Sprintf("long/levels=%s/conns=%d", levels, conns), func(b *testing.B) {
				cfg := Config{Stall: -1}
				for _, n := range strings.Split(levels, ",") {
					size, err := strconv.Atoi(n)
					if err != nil {
						b.Fatal(err)
					}
					cfg.Levels = append(cfg.Levels, size)
				}
				w, now := newStandingWheelOf(b, cfg)
				timers := make([]*TimerOf[int], 500_000)
				addSpread(w, now, timers, rand.Perm(len(timers)))
				for i := len(timers); i < conns; i++ {
					_, _ = w.Add(i, 7*24*time.Hour+time.Duration(1+i%300)*100*time.Millisecond)
				}
				var spent time.Duration
				ticks := 0
				for b.Loop() {
					spent += revolve(w, now, timers)
					ticks += 300
				}
				b.ReportMetric(float64(spent.Nanoseconds())/float64(ticks), "ns/op")
			})
		}
	}
}

// BenchmarkPassOfAMillion reports the longest pass of the hand while a block of the second
// level comes near and begins, with a million timers in it and nothing due.
func BenchmarkPassOfAMillion(b *testing.B) {
	var longest time.Duration
	for b.Loop() {
		w, now := newStandingWheel(b)
		for i := range 1_000_000 {
			_, _ = w.Add(i, time.Duration(1536+i%512)*w.clock.tick)
		}
		runtime.GC() // not in a pass
		for w.hand < 1536 {
			*now += w.clock.tick
			start := time.Now()
			w.advance()
			longest = max(longest, time.Since(start))
		}
	}
	b.ReportMetric(float64(longest.Microseconds()), "max-µs/pass")
}

// addSpread adds timers of 30 s, evenly over 30 s.
func addSpread(w *WheelOf[int], now *time.Duration, timers []*TimerOf[int], order []int) {
	for n, i := range order {
		timers[i], _ = w.Add(i, 30*time.Second)
		if (n+1)%(len(timers)/300) == 0 {
			*now += w.clock.tick
			w.advance()
		}
	}
}

// revolve touches all timers, and returns how long the hand took for the next 30 s.
func revolve(w *WheelOf[int], now *time.Duration, timers []*TimerOf[int]) time.Duration {
	for _, t := range timers {
		t.Touch()
	}
	start := time.Now()
	for range 300 {
		*now += w.clock.tick
		w.advance()
	}
	return time.Since(start)
}

// newStandingWheel returns a wheel without a hand, on the caller's clock.
func newStandingWheel(b *testing.B) (*WheelOf[int], *time.Duration) {
	return newStandingWheelOf(b, Config{Stall: -1})
}

func newStandingWheelOf(b *testing.B, cfg Config) (*WheelOf[int], *time.Duration) {
	w, err := newDue(cfg, func(*TimerOf[int], int) {})
	if err != nil {
		b.Fatal(err)
	}
	now := new(time.Duration)
	w.since = func() time.Duration { return *now }
	return w, now
}
