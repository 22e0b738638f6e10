package timeout

import (
	"context"
	"errors"
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
	// calls of a part are under way: handlers run the tasks of one while the engine answers another.
	engineTimeout = 15 * time.Second
	engineCalls   = 2

	// untoldRest is the pause before slots that could not be told of outcomes are told again.
	untoldRest = time.Second
)

// serve asks the parts of the engine for due tasks and settles outcomes until the worker ends.
func (w *worker) serve() {
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		p, ask, wait := w.plan(time.Now())
		if p != nil {
			w.asking.Go(func() { w.ask(p, ask) })
			continue
		}
		timer.Reset(wait)
		select {
		case <-timer.C:
		case <-w.wakeup:
		case <-w.ended:
			w.settleRest(func(*part) bool { return true })
			w.asking.Wait()
			w.settleRest(func(p *part) bool { return p.failing == nil }) // of the last answers
			w.asking.Wait()
			return
		}
	}
}

// settleRest tries to settle the remaining outcomes of some parts, each once. All calls go at the same time: one that fails
// holds up no other.
func (w *worker) settleRest(of func(p *part) bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, p := range w.parts {
		if !of(p) {
			continue
		}
		p.outcomes, p.untold = append(p.outcomes, p.untold...), nil
		for len(p.outcomes) > 0 {
			ask := w.askOf(p, time.Now())
			w.asking.Go(func() { w.ask(p, ask) })
		}
	}
}

// plan returns the next question and the part of the engine to ask, or a positive wait if there is none yet.
func (w *worker) plan(now time.Time) (p *part, ask engine.Ask, wait time.Duration) {
	w.mu.Lock()
	defer w.mu.Unlock()
	longest := w.c.poll()
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
	w.renew(w.wanted(now), now)
	freed, silent := w.forgo(now)
	w.c.fairQueue.ask(-freed)
	longest = min(longest, silent)
	wait = longest
	for _, p := range w.inTurn() {
		ask, until := w.planFor(p, now, longest)
		if until <= 0 {
			return p, ask, 0
		}
		wait = min(wait, until)
	}
	return nil, engine.Ask{}, wait
}

// planFor returns the next question to a part of the engine, or a positive wait, at most longest, if there is none yet. w.mu
// must be held.
func (w *worker) planFor(p *part, now time.Time, longest time.Duration) (engine.Ask, time.Duration) {
	if wait := p.until.Sub(now); wait > 0 {
		return engine.Ask{}, wait
	}
	if len(p.untold) > 0 {
		if now.Before(p.again) {
			longest = min(longest, p.again.Sub(now))
		} else {
			p.outcomes, p.untold = append(p.untold, p.outcomes...), nil
		}
	}
	if p.rescue.IsZero() && w.owners != nil {
		p.rescue = now.Add(w.rescueWait())
	}
	room, late := w.room(p, now), time.Duration(0)
	own := room > 0 && (len(p.outcomes) > 0 || !now.Before(p.look)) // its own slots are to be looked at
	switch {
	case p.calls == engineCalls || p.calls > 0 && (!p.full || room == 0 || p.isSilent(now)):
		return engine.Ask{}, longest
	case len(p.outcomes) > 0 && p.full && room == 0 && len(w.queue) > 0 && now.Sub(p.first) < settleWait:
		return engine.Ask{}, settleWait - now.Sub(p.first)
	case !p.gone && w.rescues(p, now) && (!own || !p.rescued): // also under load: it would not end for this
		p.rescued = true
		room, late = w.spare(now), w.topic.Lease
		p.rescue = now.Add(w.rescueWait())
	case len(p.outcomes) > 0:
	case room > 0:
		if wait := min(max(p.look.Sub(now), 0), longest); wait > 0 {
			return engine.Ask{}, wait
		}
	case w.limiter != nil && !p.idle && w.wants() > 0 && w.asked() == 0: // until some of a burst can begin
		missing := max(1, float64(w.limiter.Burst())/2) - w.limiter.TokensAt(now)
		return engine.Ask{}, min(max(time.Duration(missing/float64(w.limiter.Limit())*float64(time.Second)), time.Millisecond), longest)
	default:
		return engine.Ask{}, longest
	}
	if room > 0 && !w.claims(now) {
		if room = 0; len(p.outcomes) == 0 {
			return engine.Ask{}, min(longest, trialClaim)
		}
	}
	ask := w.askOf(p, now)
	ask.Max = room
	p.asked += room
	w.c.fairQueue.ask(room)
	if ask.OverdueBy = late; late > 0 {
		ask.Slots = w.foreign()
	} else if room > 0 {
		poll := w.c.poll()
		p.rescued = false
		p.look = now.Add(poll - jitter((poll-w.c.cfg.Poll)/10)) // earlier wakes are answered by this call, later ones still count
		p.net, p.own = p.look, now.Add(ownLook-jitter(ownLook/2))
	}
	return ask, 0
}

// askOf begins a call of a part. It returns the question about its first outcomes. w.mu must be held.
func (w *worker) askOf(p *part, now time.Time) engine.Ask {
	n := min(len(p.outcomes), settleSize)
	ask := engine.Ask{Topic: w.name, Node: w.c.cfg.Node, Lease: w.topic.Lease, Slots: w.wanted(now), Part: p.number, Settle: p.outcomes[:n:n]}
	p.outcomes = append([]engine.Outcome(nil), p.outcomes[n:]...)
	w.beginCall(p, now)
	return ask
}

// ask calls a part of the engine and takes its answer.
func (w *worker) ask(p *part, ask engine.Ask) {
	ctx, cancel := context.WithTimeout(context.Background(), engineTimeout)
	defer cancel()
	asked := time.Now()
	batch, err := w.c.engine.Lease(ctx, ask)
	targets := w.targets(batch.Leased)
	w.mu.Lock()
	defer w.mu.Unlock()
	now := time.Now()
	w.c.fairQueue.ask(-w.endCall(p, ask.Max, err, now))
	partial := errors.Is(err, engine.ErrPartial)
	if err == nil || partial {
		w.take(p, ask, batch, targets, asked, now)
	}
	switch {
	case partial:
		for i, outcome := range ask.Settle {
			if i >= len(batch.Settled) || !batch.Settled[i] {
				p.untold = append(p.untold, outcome)
			}
		}
		p.again = now.Add(untoldRest)
	case err != nil:
		if ask.Max > 0 {
			w.unclaim()
		}
		p.look = time.Time{} // as soon as troubles allow it
		p.outcomes = append(ask.Settle, p.outcomes...)
	}
}

// take queues the leased tasks. w.mu must be held.
func (w *worker) take(p *part, ask engine.Ask, batch engine.Batch, targets []string, asked, now time.Time) {
	if w.topic.Pull { // nobody calls the targets
		clear(targets)
	}
	w.counts.Dead += uint64(len(batch.Died))
	for i, settled := range batch.Settled {
		if o := ask.Settle[i]; p.failing == nil && !settled && (o.As != Pending || o.NewRun) {
			w.counts.Lost++
		}
	}
	p.clock = clock{batch.Now, now}
	if ask.Max == 0 || ask.OverdueBy > 0 { // nothing was looked for in the worker's own slots
		for _, outcome := range ask.Settle {
			switch {
			case outcome.As != Pending:
			case outcome.Due.IsZero():
				w.lookAt(p, now.Add(outcome.After))
			default:
				w.lookAt(p, p.clock.at(outcome.Due))
			}
		}
	}
	if ask.Max == 0 {
		return
	}
	if full := len(batch.Leased) == ask.Max; ask.OverdueBy == 0 {
		w.tune(p, now, now.Sub(asked), len(batch.Leased), full)
	} else if w.counts.Rescued += uint64(len(batch.Leased)); full {
		p.rescue = now
	}
	for i := range batch.Leased {
		a := &attempt{Leased: batch.Leased[i], target: targets[i], queued: now, now: batch.Now, until: asked.Add(ask.Lease), lease: ask.Lease}
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
		if w.stopping || a.trial && w.tries(a) { // since the call
			w.release(a, &w.counts.Returned, 0)
			continue
		}
		if outcome, over := expired(w.topic, w.schedule, a.Leased, batch.Now); over {
			w.finish(a)
			w.settle(outcome)
			continue
		}
		w.queue = append(w.queue, a)
	}
	if w.places == 0 { // since the call
		w.releaseQueue(0)
	}
	if len(w.held) > 0 && (w.pause == 0 || pauseFor(ask.Lease) < w.pause || len(w.doubts) > 0) {
		signal(w.leases)
	}
	if w.limiter != nil {
		w.limiter.ReserveN(now, len(batch.Leased))
	}
	if w.asked() == 0 && !w.tries(nil) {
		w.unclaim()
	}
	w.hire()
	if ask.OverdueBy > 0 {
		return // a rescue says nothing about the worker's own slots
	}
	switch {
	case p.full:
		w.lookAt(p, now)
	case !batch.Next.IsZero():
		w.lookAt(p, now.Add(batch.Next.Sub(batch.Now)))
	}
}

// settle queues an outcome for the engine. w.mu must be held.
func (w *worker) settle(outcome engine.Outcome) {
	w.counts.gaveUp(outcome)
	p := w.partOf(outcome.Token.Key)
	if len(p.outcomes) == 0 {
		p.first = time.Now()
		signal(w.wakeup)
	}
	p.outcomes = append(p.outcomes, outcome)
}
