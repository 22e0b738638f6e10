package wheel

import (
	"runtime"
	"runtime/debug"
)

// The workers run the user's function on due timers. Their number is bounded, they exist
// only while there is something to run, and each takes one timer at a time: a blocking
// function holds up nobody as long as there is another worker.
//
// At first there are as many workers as can run at the same time. If they block, they take
// few timers in a tick, and then their number doubles with each tick. To start all of them
// at once would make a mass expiry slow: they would queue for the lock.
type workers struct {
	most    int
	running int
	taken   uint64 // timers taken up so far
	seen    uint64 // taken at the last call of help
}

// employ starts workers for the backlog. w.mu must be held.
func (w *WheelOf[V]) employ() {
	if w.backlog.len > 0 {
		w.employAtMost(min(w.workers.most, max(2, runtime.GOMAXPROCS(0))))
	}
}

// busyWorker is the least number of timers for a worker in a tick unless it blocks. A
// worker without blocking functions takes thousands.
const busyWorker = 64

// help starts more workers if the others are stuck. The hand calls it on each waking: once
// per tick while there is a backlog. w.mu must be held.
func (w *WheelOf[V]) help() {
	if w.workers.taken-w.workers.seen < busyWorker*uint64(w.workers.running) {
		w.employAtMost(min(w.workers.most, 2*w.workers.running))
	}
	w.workers.seen = w.workers.taken
}

func (w *WheelOf[V]) employAtMost(most int) {
	for n := min(most-w.workers.running, w.backlog.len); n > 0; n-- {
		w.workers.running++
		go w.work()
	}
}

func (w *WheelOf[V]) work() {
	t, v, ok := w.takeUp()
	defer func() {
		if ok { // the user's function called runtime.Goexit
			go w.work()
		}
	}()
	for ; ok; t, v, ok = w.takeUp() {
		w.call(func() { w.funcs.Due(t, v) })
	}
}

// takeUp takes the oldest timer out of the backlog. If there is none, the calling worker is
// off the count and has to end.
func (w *WheelOf[V]) takeUp() (t *TimerOf[V], v V, ok bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.closed.Load() || w.backlog.len == 0 {
		w.workers.running--
		return nil, v, false
	}
	t = w.levels.slots.pop(&w.backlog)
	w.workers.taken++
	w.levels.slots.put(&w.undecided, never, t)
	return t, t.value, true
}

// call runs a function of the user, and reports its panic.
func (w *WheelOf[V]) call(f func()) {
	defer func() {
		if v := recover(); v != nil {
			w.panics.Add(1)
			defer func() { _ = recover() }() // if the report panics too, the count is all
			w.onPanic(v, debug.Stack())
		}
	}()
	f()
}
