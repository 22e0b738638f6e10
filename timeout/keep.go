package timeout

import (
	"context"
	"errors"
	"maps"
	"slices"
	"time"

	"github.com/heartwheel-go/heartwheel/timeout/engine"
)

// keep extends leases when a third of their time has passed, or when they are in doubt. It cancels the contexts of lost
// attempts and gives up hanging handlers. w.mu must be held.
func (w *worker) keep(now time.Time) {
	w.kept = time.Time{}
	if aging, lease := w.aging(now), w.topic.Lease; len(aging) > 0 {
		w.extending, w.told = true, false
		w.gone.Go(func() { w.extend(aging, lease) })
	}
	if len(w.held)+len(w.lost) > 0 {
		w.keepAt(now.Add(pauseFor(w.topic.Lease)))
	}
	for a := range w.held { // the topic may have changed since
		w.keepAt(now.Add(pauseFor(a.lease)))
	}
}

// keepAt makes the worker keep its leases at that time at the latest. w.mu must be held.
func (w *worker) keepAt(at time.Time) {
	if w.kept.IsZero() || at.Before(w.kept) {
		w.kept = at
	}
}

// doubt makes the worker ask at once whether the leases of a task still last, or all leases if id is empty.
func (w *worker) doubt(id string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if len(w.held) > 0 || w.isCalling() {
		now := time.Now()
		w.doubts[id] = now
		w.recheck(now)
	}
}

// recheck makes the worker keep its leases now, and once more after an extension under way. w.mu must be held.
func (w *worker) recheck(now time.Time) {
	w.told = true
	w.keepAt(now)
	signal(w.wakeup)
}

// doubted reports whether somebody has doubted a lease since it was asked for or extended. w.mu must be held.
func (w *worker) doubted(a *attempt) bool {
	asked := a.until.Add(-a.lease)
	return len(w.doubts) > 0 && (!w.doubts[a.ID].Before(asked) || !w.doubts[""].Before(asked))
}

// believe forgets the doubts after the leases were looked at. During a call or an extension it keeps them for engineTimeout: a
// call may bring another lease, and the next extension waits for this one. w.mu must be held.
func (w *worker) believe(now time.Time) {
	if !w.extending && !w.isCalling() {
		clear(w.doubts)
		return
	}
	maps.DeleteFunc(w.doubts, func(_ string, since time.Time) bool { return now.Sub(since) > engineTimeout })
}

// pauseFor returns the pause of keep beside a lease of that length.
func pauseFor(lease time.Duration) time.Duration { return min(lease/6, time.Second) }

// aging returns the attempts to extend. It loses attempts past their leases and abandons hanging
// handlers. w.mu must be held.
func (w *worker) aging(now time.Time) []*attempt {
	w.releaseHung(now)
	var aging []*attempt
	for a := range w.held {
		switch {
		case !now.Before(a.until):
			w.lose(a)
		case w.hangs(a, now):
			w.abandon(a)
		case !a.accepted && !a.own.Settled() && !w.extending && (a.until.Sub(now) < a.lease*2/3 || w.doubted(a)):
			aging = append(aging, a)
		}
	}
	for a, since := range w.lost {
		if now.Sub(since) > w.topic.Lease {
			w.giveUp(a)
		}
	}
	w.dropLost()
	w.believe(now)
	return aging
}

// hangs reports whether a handler runs a lease after its context has ended. w.mu must be held.
func (w *worker) hangs(a *attempt, now time.Time) bool {
	return a.limit > 0 && !a.begun.IsZero() && now.Sub(a.begun)-a.limit > w.topic.Lease
}

// lose gives up an attempt without a lease. dropLost must follow. w.mu must be held.
func (w *worker) lose(a *attempt) {
	w.finish(a)
	w.counts.Lost++
	if a.cancel != nil {
		w.lost[a] = time.Now()
		a.cancel(ErrLeaseLost)
	}
}

// dropLost takes the lost attempts out of the queue: they must not take room there. w.mu must be held.
func (w *worker) dropLost() {
	before := len(w.queue)
	if w.queue = slices.DeleteFunc(w.queue, func(a *attempt) bool { return a.over }); len(w.queue) < before {
		signal(w.wakeup)
	}
}

// abandon fails the attempt of a hanging handler and gives its place to another goroutine. w.mu
// must be held.
func (w *worker) abandon(a *attempt) {
	w.finish(a)
	a.cancel(ErrTimeout)
	w.counts.Failed++
	w.settle(w.conclude(a, w.topic, ErrTimeout))
	w.giveUp(a)
}

// giveUp gives the place of a hanging handler to another goroutine. At most Topic.Concurrency
// handlers lose their places; the next one keeps its own until one of them returns. A hanging call
// counts as failed. w.mu must be held.
func (w *worker) giveUp(a *attempt) {
	a.judge(ErrTimeout)
	if w.hanging >= w.topic.Concurrency {
		w.lost[a] = time.Now() // aging calls giveUp again after another lease
		if !w.crowded {
			w.crowded = true
			w.c.cfg.Logger.Error("timeout: too many handlers hang, and no more get their places", "topic", w.name, "hang", w.hanging)
		}
		return
	}
	a.left = true
	delete(w.lost, a)
	w.hanging++
	w.counts.Abandoned++
	w.vacate(a)
	w.leave(w.useful())
	w.hire()
}

// extend extends leases. If the engine does not answer, they end at their old times. It may have shortened those of
// attempts accepted meanwhile.
func (w *worker) extend(aging []*attempt, lease time.Duration) {
	ctx, cancel := context.WithTimeout(context.Background(), min(lease/3, engineTimeout))
	defer cancel()
	asked := time.Now()
	held, err := w.c.engine.Extend(ctx, tokensOf(aging), lease)
	if err != nil {
		w.c.cfg.Logger.Warn("timeout: leases are not extended", "topic", w.name, "leases", len(aging), "err", err)
	}
	known, partial := err == nil, errors.Is(err, engine.ErrPartial)
	var accepted []*attempt
	w.mu.Lock()
	defer w.mu.Unlock()
	w.extending = false
	if w.told {
		w.recheck(time.Now())
	}
	for i, a := range aging {
		switch {
		case a.accepted:
			accepted = append(accepted, a)
		case a.over:
		case (known || partial) && held[i]:
			a.until, a.lease = asked.Add(lease), lease
		case known:
			w.lose(a)
		default:
			w.doubts[a.ID] = asked // for another try at the next look
		}
	}
	w.dropLost()
	if len(accepted) > 0 {
		w.gone.Go(func() { w.prolong(accepted...) }) // the other leases don't wait for it
	}
}

func tokensOf(attempts []*attempt) []Token {
	tokens := make([]Token, len(attempts))
	for i, a := range attempts {
		tokens[i] = a.Token
	}
	return tokens
}
