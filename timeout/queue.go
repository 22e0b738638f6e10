package timeout

import (
	"context"
	"slices"
	"time"
)

// shareWait is about how long a task waits that was put off since its target has all the
// calls under way that it may have.
const shareWait = time.Second

// hire starts goroutines for what is queued. w.mu must be held.
func (w *worker) hire() {
	for n := min(len(w.queue), w.topic.Concurrency-w.workers); n > 0; n-- {
		w.workers++
		go w.work()
	}
}

// work runs what is queued until nothing is.
func (w *worker) work() {
	for {
		a, topic, handler := w.begin()
		if a == nil {
			return
		}
		w.attempt(a, topic, handler)
		if w.over(a) {
			return
		}
	}
}

// over counts an attempt out whose handler has returned, and reports whether its goroutine was
// counted out before.
func (w *worker) over(a *attempt) (left bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	delete(w.lost, a)
	if a.left {
		w.hanging--
		w.crowded = false
	} else {
		w.vacate(a)
	}
	return a.left
}

// vacate gives the place of an attempt free. w.mu must be held.
func (w *worker) vacate(a *attempt) {
	w.move(time.Now())
	w.busy--
	if a.target == "" {
		return
	}
	if w.calls[a.target]--; w.calls[a.target] == 0 {
		delete(w.calls, a.target)
	}
}

// begin takes an attempt off the queue; without one, the goroutine is over.
func (w *worker) begin() (*attempt, Topic, Handler) {
	w.mu.Lock()
	defer w.mu.Unlock()
	now := time.Now() // not before what has been queued while this waited for the lock
	a := w.next(now)
	if a == nil {
		w.leave()
		return nil, Topic{}, nil
	}
	w.busy++
	if a.target != "" {
		w.calls[a.target]++
	}
	a.begun = now
	w.move(now)
	a.ctx, a.cancel = context.WithCancelCause(WithToken(context.Background(), a.Token))
	if !a.due.IsZero() {
		if late := now.Sub(a.due); late < 0 {
			w.counts.Early++
		} else {
			w.counts.Late.Observe(late)
		}
	}
	w.counts.Running++
	return a, w.topic, w.handler
}

// next takes the first attempt off the queue that can begin, and those before it that can't
// begin any more. w.mu must be held.
func (w *worker) next(now time.Time) *attempt {
	for i := 0; i < len(w.queue) && w.workers <= w.topic.Concurrency; {
		a := w.queue[i]
		if !a.over && now.Before(a.until) && w.blocked(a) {
			i++
			continue
		}
		if w.queue[i] = nil; i == 0 {
			w.queue = w.queue[1:]
		} else {
			w.queue = slices.Delete(w.queue, i, i+1)
		}
		if len(w.queue) == 0 || w.wants() == w.least() {
			w.nudge()
		}
		switch {
		case a.over:
		case !now.Before(a.until):
			w.drop(a)
			w.counts.Lost++
		default:
			return a
		}
	}
	return nil
}

// blocked reports whether a target has as many calls under way as there are places free: one
// that hangs gets half of all places, two that do a third each, and so on, so that
// there always is one for others (dynamic thresholds, Choudhury and Hahne, 1998). w.mu must be
// held.
func (w *worker) blocked(a *attempt) bool {
	return a.target != "" && w.calls[a.target] > 0 && w.calls[a.target] >= w.topic.Concurrency-w.busy
}

// putOff hands back what has waited for its target for longer than anything should, so that
// it makes room in the queue. w.mu must be held.
func (w *worker) putOff(now time.Time) {
	if len(w.calls) == 0 {
		return
	}
	kept := w.queue[:0:0]
	for i, a := range w.queue {
		if now.Sub(a.queued) <= queueFor { // and so are all after it
			if len(kept) < i {
				w.queue = append(kept, w.queue[i:]...)
			}
			return
		}
		if a.over || !w.blocked(a) {
			kept = append(kept, a)
			continue
		}
		wait := shareWait
		if w.c.circuits.of(a.target).hangs(now) {
			wait = w.c.cfg.CircuitWait
		}
		w.putBack(a, wait)
	}
	w.queue = kept
}

// putBack hands an attempt back, for about that long. w.mu must be held.
func (w *worker) putBack(a *attempt, wait time.Duration) {
	if w.finish(a) {
		w.counts.Postponed++
		w.settle(Outcome{Token: a.Token, As: Pending, After: wait/2 + jitter(wait), Refund: true})
	}
}

// leave counts a goroutine out. w.mu must be held.
func (w *worker) leave() {
	w.workers--
	if w.workers == 0 && w.quiet != nil {
		close(w.quiet)
		w.quiet = nil
	}
}

// drop takes an attempt out of what is held. w.mu must be held.
func (w *worker) drop(a *attempt) {
	a.over = true
	delete(w.held, a)
	if !a.begun.IsZero() {
		w.counts.Running--
	}
}
