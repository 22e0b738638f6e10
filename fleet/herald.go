package fleet

import "sync"

// heraldLines is the number of concurrent OnOnline calls for sessions registered again. All sessions
// of the node can be registered again at once.
const heraldLines = 16

// herald tells OnOnline of sessions registered again. The renewals do not wait for OnOnline: other
// leases would end meanwhile.
type herald struct {
	lines [heraldLines]line
	all   sync.WaitGroup
}

// line makes calls one after the other. All calls for a session are in one line, in their order.
type line struct {
	mu      sync.Mutex
	waiting []func()
	runs    bool
}

// tell queues a call of f, after the earlier calls for the same session.
func (h *herald) tell(id string, f func()) {
	l := &h.lines[slotAmong(id, heraldLines)]
	l.mu.Lock()
	defer l.mu.Unlock()
	l.waiting = append(l.waiting, f)
	if !l.runs {
		l.runs = true
		h.all.Go(l.run)
	}
}

// run makes the waiting calls until none waits.
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
