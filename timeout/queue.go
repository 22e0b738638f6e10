package timeout

import (
	"context"
	"slices"
	"time"

	"github.com/heartwheel-go/heartwheel/timeout/engine"
)

// shareWait is about how long a task is put off if its target has as many calls under way as it
// may have.
const shareWait = time.Second

// hire starts goroutines for the queue, up to places, as far as the node has room. w.mu must be held.
func (w *worker) hire() {
	n := min(len(w.queue), w.places-w.workers)
	if w.c.fairQueue.limit > 0 {
		n = w.c.fairQueue.want(&w.flow, max(w.topic.Priority, 1), w.useful(), time.Now())
	}
	for ; n > 0; n-- {
		w.workers++
		go w.work()
	}
}

// useful returns how many places of the node could be in use now. w.mu must be held.
func (w *worker) useful() int { return min(w.busy+len(w.queue), w.places) }

// join is work on a place that the topic has waited for.
func (w *worker) join() {
	w.mu.Lock()
	w.workers++
	w.mu.Unlock()
	w.work()
}

// work runs queued attempts until there is none to begin, or another topic gets the place.
func (w *worker) work() {
	for again := false; ; again = true {
		a, topic, handler := w.begin(again)
		if a == nil {
			return
		}
		w.attempt(a, topic, handler)
		if w.over(a) {
			return
		}
	}
}

// over counts out an attempt after its handler has returned. It reports whether its goroutine was
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

// vacate frees the place of an attempt. w.mu must be held.
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

// begin takes an attempt off the queue. Without one, or if another topic gets the place of a goroutine
// that has run one, it counts the goroutine out.
func (w *worker) begin(again bool) (*attempt, Topic, Handler) {
	w.mu.Lock()
	defer w.mu.Unlock()
	now := time.Now() // under the lock: not before an attempt was queued
	if again && w.c.fairQueue.limit > 0 && !w.c.fairQueue.keeps(&w.flow, w.useful(), now) {
		w.leave(w.useful())
		return nil, Topic{}, nil
	}
	a := w.next(now)
	if a == nil {
		w.leave(w.busy) // what is left in the queue can't begin
		return nil, Topic{}, nil
	}
	w.busy++
	if a.target != "" {
		w.calls[a.target]++
	}
	a.begun = now
	w.move(now)
	a.limit = timeLimit(w.topic.With(a.Options))
	a.own.Success = func() engine.Outcome {
		w.mu.Lock()
		defer w.mu.Unlock()
		return w.conclude(a, w.topic, nil)
	}
	ctx := WithToken(engine.WithAttempt(context.Background(), &a.own), prove(a.Token, w.c.cfg.FeedbackKeys))
	a.ctx, a.cancel = context.WithCancelCause(ctx)
	w.counts.Running++
	return a, w.topic, w.handler
}

// next takes the first attempt able to begin off the queue. Before it, it drops attempts over or
// without a lease. w.mu must be held.
func (w *worker) next(now time.Time) *attempt {
	w.redeal(now) // nobody may have planned since
	for i := 0; i < len(w.queue) && w.workers <= w.places; {
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
			signal(w.wakeup)
		}
		switch {
		case a.over:
		case !now.Before(a.until):
			w.finish(a)
			w.counts.Lost++
		default:
			return a
		}
	}
	return nil
}

// blocked reports whether a target has at least as many calls under way as there are free places.
// One hanging target gets half of all places, two get a third each, and so on. A place for others
// always remains (dynamic thresholds, Choudhury and Hahne, 1998). w.mu must be held.
func (w *worker) blocked(a *attempt) bool {
	return a.target != "" && w.calls[a.target] > 0 && w.calls[a.target] >= w.places-w.busy
}

// putOff makes room in the queue: it hands back attempts waiting for their targets for longer than
// queueFor. w.mu must be held.
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
		w.release(a, &w.counts.Postponed, wait/2+jitter(wait))
	}
	w.queue = kept
}

// release hands an attempt back that has not begun, and counts that. It is due after that time, or as before if that is zero.
// w.mu must be held.
func (w *worker) release(a *attempt, count *uint64, after time.Duration) {
	if !w.finish(a) {
		return
	}
	*count++
	outcome := engine.Outcome{Token: a.Token, As: Pending, After: after, Release: true}
	if after == 0 {
		outcome.Due = a.Due
	}
	w.settle(outcome)
}

// leave counts a goroutine out. The topic can use so many places of the node. w.mu must be held.
func (w *worker) leave(useful int) {
	w.workers--
	if w.c.fairQueue.limit > 0 {
		w.c.fairQueue.release(&w.flow, useful, time.Now())
	}
	if w.workers == 0 && w.quiet != nil {
		close(w.quiet)
		w.quiet = nil
	}
}

// finish takes an attempt out of the held ones. It reports false if it was over already. w.mu must be held.
func (w *worker) finish(a *attempt) bool {
	if a.over {
		return false
	}
	a.over = true
	delete(w.held, a)
	if !a.begun.IsZero() {
		w.counts.Running--
	}
	return true
}
