package timeout

import (
	"sync"
	"time"
)

// looks is when a worker or a desk next looks for due tasks, and what makes it look earlier.
type looks struct {
	bell chan struct{} // has an element if serve must plan anew

	// mu guards the fields below, and those of the worker or the desk. It is not held during calls of the
	// engine or a handler.
	mu    sync.Mutex
	look  time.Time // the latest time of the next look
	clock clock     // of the last answer
}

// lookNow makes serve look at once. l.mu must be held.
func (l *looks) lookNow() {
	l.look = time.Time{}
	ring(l.bell)
}

// lookAt makes serve look at that time at the latest. l.mu must be held.
func (l *looks) lookAt(at time.Time) {
	if at.Before(l.look) {
		l.look = at
		ring(l.bell)
	}
}

// told makes serve look: somebody may have set a task.
func (l *looks) told() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.lookNow()
}

// expect makes serve look when a task set on this node is due, by the engine's clock.
func (l *looks) expect(due time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.lookAt(l.clock.at(due))
}

// ring puts an element into a channel of capacity one if it is empty.
func ring(bell chan<- struct{}) {
	select {
	case bell <- struct{}{}:
	default:
	}
}
