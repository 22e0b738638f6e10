package timeout

import "time"

// cancelGrace is how long handlers may go on after their contexts have ended.
const cancelGrace = time.Second

// drain hands back the attempts still queued, waits for handlers, and ends the worker.
func (w *worker) drain(grace time.Duration) {
	quiet := w.retire()
	if !within(quiet, max(grace, 0)) {
		w.cancel()
		within(quiet, cancelGrace)
	}
	w.forsake()
	w.gone.Wait()
	w.c.fairQueue.remove(&w.flow)
}

// retire stops starting handlers. The channel is closed when the last one has returned.
func (w *worker) retire() <-chan struct{} {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.stopping = true
	w.releaseQueue(0)
	w.hire() // no longer waits for a place
	quiet := make(chan struct{})
	if w.workers == 0 {
		close(quiet)
	} else {
		w.quiet = quiet
	}
	return quiet
}

// cancel ends the contexts of all handlers.
func (w *worker) cancel() {
	w.mu.Lock()
	defer w.mu.Unlock()
	for a := range w.held {
		if a.cancel != nil {
			a.cancel(ErrStopping)
		}
	}
}

// forsake gives up the handlers still running, and adds them to the result of Run. Nothing more is leased or extended.
func (w *worker) forsake() {
	w.c.mu.Lock()
	defer w.c.mu.Unlock()
	w.mu.Lock()
	defer w.mu.Unlock()
	for a := range w.held {
		a.judge(errNoCall)
	}
	for a := range w.lost {
		a.judge(errNoCall)
	}
	w.c.left += w.workers + w.hanging
	w.ended = true
	signal(w.wakeup)
}

// within reports whether a channel is closed within d.
func within(done <-chan struct{}, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-done:
		return true
	case <-timer.C:
		return false
	}
}

// stats returns the counts.
func (w *worker) stats() Stats {
	w.mu.Lock()
	defer w.mu.Unlock()
	s := w.counts
	s.Topic, s.Slots, s.Queued = w.name, w.slots, len(w.queue)
	return s
}
