package fleet

import (
	"sync"

	"github.com/heartwheel-go/heartwheel/timeout"
)

// heraldLines is how many of OnOnline are told at the same time of sessions that were registered
// again. There can be as many of these at once as the node has.
const heraldLines = 16

// herald tells OnOnline of sessions that were registered again. Who extends leases does not wait
// for that: the others would be over meanwhile.
type herald struct {
	lines [heraldLines]line
	all   sync.WaitGroup
}

// line is one after the other, so that a session's are in their order.
type line struct {
	mu      sync.Mutex
	waiting []func()
	runs    bool
}

// tell has f be called, after those of the same session that came before.
func (h *herald) tell(id string, f func()) {
	l := &h.lines[timeout.Slot(id, heraldLines)]
	l.mu.Lock()
	defer l.mu.Unlock()
	l.waiting = append(l.waiting, f)
	if !l.runs {
		l.runs = true
		h.all.Go(l.run)
	}
}

// run calls what waits until nothing does.
func (l *line) run() {
	for {
		l.mu.Lock()
		batch := l.waiting
		l.waiting = nil
		l.runs = len(batch) > 0
		l.mu.Unlock()
		if len(batch) == 0 {
			return
		}
		for _, f := range batch {
			f()
		}
	}
}
