package wheel

import (
	"runtime/debug"
	"sync"
)

// executor runs a function of the user on many items. The hand gives it batches
// and goes on at once. The goroutines are bounded in number, exist only while
// there is something to do, and take one item at a time: one that blocks holds
// up nobody else as long as there is another worker.
type executor[T any] struct {
	run     func(T)
	workers int
	onPanic func(value any, stack []byte)

	mu      sync.Mutex
	queue   [][]T // each not empty
	backlog int   // items in queue
	running int   // workers
	panics  uint64
	stopped bool
}

// submit queues a batch, which the executor then owns.
func (e *executor[T]) submit(batch []T) {
	if len(batch) == 0 {
		return
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.stopped {
		return
	}
	e.queue = append(e.queue, batch)
	e.backlog += len(batch)
	for n := min(e.workers-e.running, len(batch)); n > 0; n-- {
		e.running++
		go e.work()
	}
}

// stop drops what has not begun. It does not wait for what has.
func (e *executor[T]) stop() {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.stopped = true
	e.queue, e.backlog = nil, 0
}

func (e *executor[T]) work() {
	finished := false
	defer func() {
		if !finished { // the user's function called runtime.Goexit
			go e.work()
		}
	}()
	for {
		item, ok := e.next()
		if !ok {
			finished = true
			return
		}
		e.call(item)
	}
}

// next returns the item to run next. Where there is none it takes the calling
// worker off the count.
func (e *executor[T]) next() (item T, ok bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if len(e.queue) == 0 {
		e.running--
		return item, false
	}
	var zero T
	batch := e.queue[0]
	item, batch[0] = batch[0], zero
	if batch = batch[1:]; len(batch) > 0 {
		e.queue[0] = batch
	} else {
		e.queue[0] = nil
		e.queue = e.queue[1:]
	}
	e.backlog--
	return item, true
}

func (e *executor[T]) call(item T) {
	defer func() {
		if v := recover(); v != nil {
			e.reportPanic(v)
		}
	}()
	e.run(item)
}

func (e *executor[T]) reportPanic(value any) {
	e.mu.Lock()
	e.panics++
	e.mu.Unlock()
	defer func() { _ = recover() }() // a report that panics too has been counted
	e.onPanic(value, debug.Stack())
}

func (e *executor[T]) stats() (backlog int, panics uint64) {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.backlog, e.panics
}
