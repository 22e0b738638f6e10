package timeout

import (
	"context"
	"sync"
	"time"

	"github.com/heartwheel-go/heartwheel/timeout/engine"
)

const (
	// settleSize is the largest number of outcomes settled by one call. With a backlog,
	// outcomes wait up to settleWait to be settled together. PostgreSQL settles so many in one
	// transaction, so none is settled twice if it fails.
	settleSize = 1000
	settleWait = 5 * time.Millisecond

	// engineTimeout is the time limit of a call of the engine. With a backlog, up to engineCalls
	// calls are under way: handlers run the tasks of one while the engine answers another.
	engineTimeout = 15 * time.Second
	engineCalls   = 2
)

// serve asks the engine for due tasks and settles outcomes until the worker ends.
func (w *worker) serve() {
	timer := time.NewTimer(0)
	defer timer.Stop()
	troubles := newTroubles(w)
	answers := make(chan error, engineCalls)
	calls := 0
	for {
		bell := w.bell
		wait := troubles.pause(time.Now())
		if wait > 0 {
			bell = nil // not before that
		} else {
			var ask engine.Ask
			if ask, wait = w.plan(time.Now(), calls); wait == 0 {
				calls++
				w.gone.Go(func() { answers <- w.ask(ask) })
				continue
			}
		}
		timer.Reset(wait)
		select {
		case err := <-answers:
			calls--
			troubles.answered(err, time.Now())
		case <-timer.C:
		case <-bell:
		case <-w.ended:
			for ; calls > 0; calls-- {
				troubles.answered(<-answers, time.Now())
			}
			w.settleRest()
			return
		}
	}
}

// settleRest tries to settle the remaining outcomes, each once. All calls go at the same time: one that fails, or
// waits for a part of the engine, holds up no other.
func (w *worker) settleRest() {
	var asks []engine.Ask
	for ask, _ := w.plan(time.Now(), 0); len(ask.Settle) > 0; ask, _ = w.plan(time.Now(), 0) {
		asks = append(asks, ask)
	}
	var all sync.WaitGroup
	for _, ask := range asks {
		all.Go(func() { _ = w.ask(ask) })
	}
	all.Wait()
}

// plan returns the next question to the engine, or a positive wait if there is none yet. calls
// is the number of calls under way.
func (w *worker) plan(now time.Time, calls int) (engine.Ask, time.Duration) {
	w.mu.Lock()
	defer w.mu.Unlock()
	poll := w.c.poll()
	longest := poll
	if w.redeal(now) {
		longest = min(longest, w.fresh.Sub(now))
	}
	w.putOff(now)
	if until := w.restrain(now); !until.IsZero() {
		longest = min(longest, max(until.Sub(now), time.Millisecond))
	}
	if len(w.calls) > 0 && len(w.queue) > 0 {
		longest = min(longest, queueFor) // some may have to be put off then
	}
	ask := engine.Ask{Topic: w.name, Node: w.c.cfg.Node, Lease: w.topic.Lease, Slots: w.wanted(now)}
	if w.ending || w.stopping && len(w.held) == 0 {
		ask.Lease = 0 // the last outcomes: the engine must keep none for a later call
	}
	ask.Max = w.room(now)
	n := min(len(w.outcomes), settleSize)
	own := ask.Max > 0 && (n > 0 || !now.Before(w.look)) // its own slots are to be looked at
	switch {
	case calls == engineCalls || calls > 0 && (!w.full || ask.Max == 0):
		return ask, longest
	case n > 0 && w.full && ask.Max == 0 && len(w.queue) > 0 && now.Sub(w.first) < settleWait:
		return ask, settleWait - now.Sub(w.first)
	case w.rescues(now) && (!own || !w.rescued): // also under load: it would not end for this
		w.rescued = true
		ask.Slots, ask.Late, ask.Max = w.foreign(), w.topic.Lease, w.spare(now)
		w.rescue = now.Add(w.rescueWait())
	case n > 0:
	case ask.Max > 0:
		if wait := min(max(w.look.Sub(now), 0), longest); wait > 0 {
			return ask, wait
		}
	case w.limiter != nil && w.wants() > 0: // until some of a burst can begin
		missing := max(1, float64(w.limiter.Burst())/2) - w.limiter.TokensAt(now)
		return ask, min(max(time.Duration(missing/float64(w.limiter.Limit())*float64(time.Second)), time.Millisecond), longest)
	default:
		return ask, longest
	}
	if ask.Max > 0 && !w.claims(now) {
		if ask.Max = 0; n == 0 {
			return ask, min(longest, trialClaim)
		}
	}
	ask.Settle = w.outcomes[:n:n]
	w.outcomes = append([]engine.Outcome(nil), w.outcomes[n:]...)
	w.asked += ask.Max
	w.c.arbiter.ask(ask.Max)
	if ask.Max > 0 && ask.Late == 0 {
		w.rescued = false
		w.look = now.Add(poll - jitter((poll-w.c.cfg.Poll)/10)) // earlier hints are answered by this call, later ones still count
		w.net, w.own = w.look, now.Add(ownLook-jitter(ownLook/2))
	}
	return ask, 0
}

// ask calls the engine and takes its answer.
func (w *worker) ask(ask engine.Ask) error {
	ctx, cancel := context.WithTimeout(context.Background(), engineTimeout)
	defer cancel()
	asked := time.Now()
	batch, err := w.c.engine.Expire(ctx, ask)
	targets := w.targets(batch.Leased)
	w.mu.Lock()
	defer w.mu.Unlock()
	w.asked -= ask.Max
	w.c.arbiter.ask(-ask.Max)
	if err == nil {
		w.take(ask, batch, targets, asked, time.Now())
		return nil
	}
	w.unclaim()
	w.look = time.Time{} // as soon as troubles allow it
	w.outcomes = append(ask.Settle, w.outcomes...)
	return err
}

// take queues the leased tasks. w.mu must be held.
func (w *worker) take(ask engine.Ask, batch engine.Batch, targets []string, asked, now time.Time) {
	if w.topic.Pull { // nobody calls the targets
		clear(targets)
	}
	w.counts.Dead += uint64(len(batch.Died))
	for i, settled := range batch.Settled {
		if o := ask.Settle[i]; !settled && (o.As != Pending || o.Anew) {
			w.counts.Lost++
		}
	}
	w.clock = clock{batch.Now, now}
	if ask.Max == 0 || ask.Late > 0 { // nothing was looked for in the worker's own slots
		for _, outcome := range ask.Settle {
			switch {
			case outcome.As != Pending:
			case outcome.Due.IsZero():
				w.lookAt(now.Add(outcome.After))
			default:
				w.lookAt(w.clock.at(outcome.Due))
			}
		}
	}
	if ask.Max == 0 {
		return
	}
	if full := len(batch.Leased) == ask.Max; ask.Late == 0 {
		w.tune(now, now.Sub(asked), full)
	} else if w.counts.Rescued += uint64(len(batch.Leased)); full {
		w.rescue = now
	}
	for i := range batch.Leased {
		a := &attempt{Leased: batch.Leased[i], target: targets[i], queued: now, now: batch.Now, until: asked.Add(ask.Lease), lease: ask.Lease}
		if !a.Asked.IsZero() {
			a.until = a.Asked.Add(ask.Lease)
		}
		if a.Attempts == 1 {
			a.due = now.Add(a.Due.Sub(batch.Now)) // a step of this node's clock does not matter
		}
		if a.Again {
			w.counts.Again++
		}
		if a.Callback != nil {
			w.meets(now)
		}
		a.trial = ask.Max == 1 && w.hold.leases != leaseAny
		w.held[a] = struct{}{}
		if w.stopping { // since the call
			w.giveBack(a, time.Time{})
			continue
		}
		if outcome, over := outlived(w.topic, w.schedule, a.Leased, batch.Now); over {
			w.drop(a)
			w.counts.gaveUp(outcome)
			w.settle(outcome)
			continue
		}
		w.queue = append(w.queue, a)
	}
	if w.places == 0 { // since the call
		w.shed(0)
	}
	if len(w.held) > 0 && (w.pause == 0 || pauseFor(ask.Lease) < w.pause) {
		ring(w.leases)
	}
	if w.limiter != nil {
		w.limiter.ReserveN(now, len(batch.Leased))
	}
	if !w.tries() {
		w.unclaim()
	}
	w.hire()
	if ask.Late > 0 {
		return // a rescue says nothing about the worker's own slots
	}
	switch {
	case w.full:
		w.lookAt(now)
	case !batch.Next.IsZero():
		w.lookAt(now.Add(batch.Next.Sub(batch.Now)))
	}
}

// settle queues an outcome for the engine. w.mu must be held.
func (w *worker) settle(outcome engine.Outcome) {
	if len(w.outcomes) == 0 {
		w.first = time.Now()
		ring(w.bell)
	}
	w.outcomes = append(w.outcomes, outcome)
}
