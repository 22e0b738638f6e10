package timeout

import (
	"context"
	"errors"
	"maps"
	"time"

	"github.com/heartwheel-go/heartwheel/timeout/engine"
)

// doubtRest is the pause after doubtful leases were extended. What is told meanwhile makes one extension.
const doubtRest = 5 * time.Millisecond

// keep extends leases when a third of their time has passed, or when they are in doubt. It cancels the contexts of lost
// attempts and gives up hanging handlers. It sleeps while there is no lease and no hanging handler.
func (w *worker) keep() {
	var next time.Time // when it looks at all leases; doubts don't put that off
	for {
		lease, pause := w.leased()
		var tick <-chan time.Time
		if now := time.Now(); pause == 0 {
			next = time.Time{}
		} else {
			if latest := now.Add(pause); next.IsZero() || next.After(latest) {
				next = latest
			}
			tick = time.After(next.Sub(now))
		}
		select {
		case <-tick:
			next = time.Time{}
			w.extend(w.aging(time.Now()), lease)
		case <-w.leases:
			if doubtful := w.doubtful(); len(doubtful) > 0 {
				w.extend(doubtful, lease)
				time.Sleep(doubtRest)
			}
		case <-w.ended:
			return
		}
	}
}

// doubt makes keep ask at once whether the leases of a task still last, or all leases if id is empty.
func (w *worker) doubt(id string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if len(w.held) > 0 || w.isCalling() {
		w.doubts[id] = time.Now()
		signal(w.leases)
	}
}

// doubtful returns the attempts whose leases are in doubt.
func (w *worker) doubtful() (doubtful []*attempt) {
	w.mu.Lock()
	defer w.mu.Unlock()
	now := time.Now()
	for a := range w.held {
		if !a.accepted && now.Before(a.until) && w.doubted(a) {
			doubtful = append(doubtful, a)
		}
	}
	w.believe(now)
	return doubtful
}

// doubted reports whether somebody has doubted a lease since it was asked for or extended. w.mu must be held.
func (w *worker) doubted(a *attempt) bool {
	asked := a.until.Add(-a.lease)
	return len(w.doubts) > 0 && (!w.doubts[a.ID].Before(asked) || !w.doubts[""].Before(asked))
}

// believe forgets the doubts, once it is known which leases they are about. A call under way may bring another one. w.mu
// must be held.
func (w *worker) believe(now time.Time) {
	if !w.isCalling() {
		clear(w.doubts)
		return
	}
	maps.DeleteFunc(w.doubts, func(_ string, since time.Time) bool { return now.Sub(since) > engineTimeout })
}

// leased returns the length of the next leases, and the pause of keep: zero if there is nothing to keep. The topic may
// have changed, so the present leases can have other lengths.
func (w *worker) leased() (lease, pause time.Duration) {
	w.mu.Lock()
	defer w.mu.Unlock()
	lease, w.pause = w.topic.Lease, 0
	if len(w.held)+len(w.lost) > 0 {
		w.pause = pauseFor(lease)
	}
	for a := range w.held {
		w.pause = min(w.pause, pauseFor(a.lease))
	}
	return lease, w.pause
}

// pauseFor returns the pause of keep beside a lease of that length.
func pauseFor(lease time.Duration) time.Duration { return min(lease/6, time.Second) }

// aging returns the attempts to extend. It loses attempts past their leases and abandons hanging
// handlers.
func (w *worker) aging(now time.Time) []*attempt {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.releaseHung(now)
	var aging []*attempt
	for a := range w.held {
		switch {
		case !now.Before(a.until):
			w.lose(a)
		case w.hangs(a, now):
			w.abandon(a)
		case !a.accepted && (a.until.Sub(now) < a.lease*2/3 || w.doubted(a)):
			aging = append(aging, a)
		}
	}
	for a, since := range w.lost {
		if now.Sub(since) > w.topic.Lease {
			w.giveUp(a)
		}
	}
	w.believe(now)
	return aging
}

// lose gives up an attempt without a lease. w.mu must be held.
func (w *worker) lose(a *attempt) {
	w.finish(a)
	w.counts.Lost++
	if a.cancel != nil {
		w.lost[a] = time.Now()
		a.cancel(ErrLeaseLost)
	}
}

// hangs reports whether a handler still runs a lease after Topic.Timeout ended its context. w.mu
// must be held.
func (w *worker) hangs(a *attempt, now time.Time) bool {
	limit := timeLimit(w.topic.With(a.Options))
	return limit > 0 && !a.begun.IsZero() && now.Sub(a.begun)-limit > w.topic.Lease
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

// extend extends leases. If the engine does not answer, they end at their old times.
func (w *worker) extend(aging []*attempt, lease time.Duration) {
	if len(aging) == 0 {
		return
	}
	tokens := tokensOf(aging)
	ctx, cancel := context.WithTimeout(context.Background(), min(lease/3, engineTimeout))
	defer cancel()
	asked := time.Now()
	held, err := w.c.engine.Extend(ctx, tokens, lease)
	if err != nil {
		w.c.cfg.Logger.Warn("timeout: leases are not extended", "topic", w.name, "leases", len(tokens), "err", err)
	}
	if accepted := w.extended(aging, held, err, asked, lease); len(accepted) > 0 {
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

// extended takes the answer to an extension. It returns the attempts accepted meanwhile: it may have shortened
// their leases.
func (w *worker) extended(aging []*attempt, held []bool, err error, asked time.Time, lease time.Duration) (accepted []*attempt) {
	known, partial := err == nil, errors.Is(err, engine.ErrPartial)
	w.mu.Lock()
	defer w.mu.Unlock()
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
	return accepted
}
