package bench

import (
	"sync"
	"sync/atomic"
	"time"
)

const cacheLine = 128

// onOwnLine is a word that shares its cache line, and the one that the processor
// fetches along with it, with nobody.
type onOwnLine struct {
	atomic.Uint64
	_ [cacheLine - 8]byte
}

// limitOf does nothing at all with what is stored.
type limitOf struct {
	clock *onOwnLine
	lines []onOwnLine
	words []*onOwnLine
}

func newLimit(s setting) deadlines {
	return &limitOf{clock: new(onOwnLine), lines: make([]onOwnLine, s.conns), words: make([]*onOwnLine, s.conns)}
}

func (l *limitOf) add(i int, _ time.Duration) {
	l.words[i], l.lines = &l.lines[0], l.lines[1:]
	l.words[i].Store(1) // the kernel gives memory when it is written to
}
func (l *limitOf) touch(i int) { l.words[i].Store(l.clock.Load()) }
func (l *limitOf) remove(int)  {}
func (l *limitOf) close()      {}

// stdTimer is time.AfterFunc and Reset.
type stdTimer struct {
	setting
	timers []*time.Timer
}

func newStdTimer(s setting) deadlines {
	return &stdTimer{setting: s, timers: make([]*time.Timer, s.conns)}
}

func (t *stdTimer) add(i int, d time.Duration) {
	t.timers[i] = time.AfterFunc(d, func() { t.expired(i) })
}
func (t *stdTimer) touch(i int)  { t.timers[i].Reset(t.timeout) }
func (t *stdTimer) remove(i int) { t.timers[i].Stop() }
func (t *stdTimer) close()       { stopAll(t.timers) }

func stopAll(timers []*time.Timer) {
	for _, t := range timers {
		if t != nil {
			t.Stop()
		}
	}
}

// coarse is a clock that a goroutine sets once per tick.
type coarse struct {
	now  onOwnLine // since start
	quit chan struct{}
	done sync.WaitGroup
}

func newCoarse(tick time.Duration, each func(now time.Duration)) *coarse {
	c := &coarse{quit: make(chan struct{})}
	start := time.Now()
	c.done.Go(func() {
		ticker := time.NewTicker(tick)
		defer ticker.Stop()
		for {
			select {
			case <-c.quit:
				return
			case <-ticker.C:
				now := time.Since(start)
				c.now.Store(uint64(now))
				each(now)
			}
		}
	})
	return c
}

func (c *coarse) read() time.Duration { return time.Duration(c.now.Load()) }

func (c *coarse) close() {
	close(c.quit)
	c.done.Wait()
}

// stdLazy stores a coarse deadline at a touch. The connection's time.AfterFunc
// looks at it when it fires, and starts itself again if it was moved.
type stdLazy struct {
	setting
	clock *coarse
	conns []*lazyConn
}

type lazyConn struct {
	deadline atomic.Int64
	timer    *time.Timer
}

func newStdLazy(s setting) deadlines {
	return &stdLazy{setting: s, clock: newCoarse(s.tick, func(time.Duration) {}), conns: make([]*lazyConn, s.conns)}
}

func (l *stdLazy) add(i int, d time.Duration) {
	c := new(lazyConn)
	l.conns[i] = c
	c.deadline.Store(int64(l.clock.read() + d))
	c.timer = time.AfterFunc(d, func() {
		if left := time.Duration(c.deadline.Load()) - l.clock.read(); left > 0 {
			c.timer.Reset(left)
			return
		}
		l.expired(i)
	})
}
func (l *stdLazy) touch(i int)  { l.conns[i].deadline.Store(int64(l.clock.read() + l.timeout)) }
func (l *stdLazy) remove(i int) { l.conns[i].timer.Stop() }
func (l *stdLazy) close() {
	l.clock.close()
	for _, c := range l.conns {
		if c != nil {
			c.timer.Stop()
		}
	}
}

// flatSweep is an array of deadlines, in ticks, all of which are looked at on
// each tick. Zero is a place that is free.
type flatSweep struct {
	setting
	clock *coarse
	due   []atomic.Uint32
}

func newFlatSweep(s setting) deadlines {
	f := &flatSweep{setting: s, due: make([]atomic.Uint32, s.conns)}
	f.clock = newCoarse(s.tick, f.sweep)
	return f
}

func (f *flatSweep) sweep(now time.Duration) {
	tick := uint32(now / f.tick)
	for i := range f.due {
		if due := f.due[i].Load(); due != 0 && due <= tick && f.due[i].CompareAndSwap(due, 0) {
			f.expired(i)
		}
	}
}

func (f *flatSweep) ticks(d time.Duration) uint32 {
	return uint32((f.clock.read()+d)/f.tick) + 1
}
func (f *flatSweep) add(i int, d time.Duration) { f.due[i].Store(f.ticks(d)) }
func (f *flatSweep) touch(i int)                { f.due[i].Store(f.ticks(f.timeout)) }
func (f *flatSweep) remove(i int)               { f.due[i].Store(0) }
func (f *flatSweep) close()                     { f.clock.close() }

// scan is what gnet's users are advised to do: remember when each connection
// spoke last, and go through all of them once a second.
type scan struct {
	setting
	clock *coarse

	mu    sync.Mutex
	live  map[int]*scanned
	conns []*scanned
}

type scanned struct{ spoke atomic.Int64 }

func newScan(s setting) deadlines {
	c := &scan{setting: s, live: make(map[int]*scanned), conns: make([]*scanned, s.conns)}
	c.clock = newCoarse(time.Second, c.look)
	return c
}

func (s *scan) look(time.Duration) {
	now := time.Now().UnixNano()
	s.mu.Lock()
	defer s.mu.Unlock()
	for i, c := range s.live {
		if now-c.spoke.Load() > int64(s.timeout) {
			delete(s.live, i)
			s.expired(i)
		}
	}
}

func (s *scan) add(i int, _ time.Duration) {
	c := new(scanned)
	c.spoke.Store(time.Now().UnixNano())
	s.mu.Lock()
	defer s.mu.Unlock()
	s.live[i], s.conns[i] = c, c
}
func (s *scan) touch(i int) { s.conns[i].spoke.Store(time.Now().UnixNano()) }
func (s *scan) remove(i int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.live, i)
}
func (s *scan) close() { s.clock.close() }

// goroutines is what most people write: a goroutine for each connection, with a
// timer, which is told of each heartbeat.
type goroutines struct {
	setting
	beats []chan struct{}
	gone  []chan struct{}
	done  sync.WaitGroup
}

func newGoroutines(s setting) deadlines {
	return &goroutines{setting: s, beats: make([]chan struct{}, s.conns), gone: make([]chan struct{}, s.conns)}
}

func (g *goroutines) add(i int, d time.Duration) {
	beat, gone := make(chan struct{}, 1), make(chan struct{})
	g.beats[i], g.gone[i] = beat, gone
	g.done.Go(func() {
		timer := time.NewTimer(d)
		defer timer.Stop()
		for {
			select {
			case <-beat:
				timer.Reset(g.timeout)
			case <-gone:
				return
			case <-timer.C:
				g.expired(i)
				return
			}
		}
	})
}
func (g *goroutines) touch(i int)  { g.beats[i] <- struct{}{} }
func (g *goroutines) remove(i int) { close(g.gone[i]); g.gone[i] = nil }
func (g *goroutines) close() {
	for _, gone := range g.gone {
		if gone != nil {
			close(gone)
		}
	}
	g.done.Wait()
}
