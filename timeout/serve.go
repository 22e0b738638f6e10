package timeout

import (
	"slices"
	"time"

	"github.com/heartwheel-go/heartwheel/timeout/engine"
)

// run leases tasks until the worker ends, and then tries to settle the remaining outcomes.
func (w *worker) run() {
	w.serve()
	w.settleRest(false)
	w.settleRest(true) // of the last answers
}

// settleRest tries to settle the remaining outcomes of all parts, or of those that answer, each once. All calls go at the same
// time: a failing one holds up no other.
func (w *worker) settleRest(answering bool) {
	w.mu.Lock()
	for _, p := range slices.Clone(w.parts) {
		if answering && p.failing != nil {
			continue
		}
		p.outcomes, p.untold = append(p.outcomes, p.untold...), nil
		for len(p.outcomes) > 0 {
			ask := engine.Ask{Topic: w.name, Node: w.c.cfg.Node}
			w.beginCall(p, &ask, time.Now())
			w.asking.Go(func() { w.ask(p, ask) })
		}
	}
	w.mu.Unlock()
	w.asking.Wait()
}

// prepare takes away what the worker may no longer run, and returns the slots to lease from.
func (w *worker) prepare(now time.Time) (ask engine.Ask, longest time.Duration) {
	if w.ended {
		return ask, 0
	}
	longest = w.c.poll()
	if !w.kept.IsZero() && !now.Before(w.kept) {
		w.keep(now)
	}
	if !w.kept.IsZero() {
		longest = min(longest, w.kept.Sub(now))
	}
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
	ask.Lease, ask.Slots = w.topic.Lease, w.wanted(now)
	w.renew(ask.Slots, now)
	longest = min(longest, w.forgo(now))
	if w.limiter != nil && w.wants() > 0 {
		longest = w.refill(now, longest)
	}
	return ask, longest
}

// begins makes a rescue a question about the slots of other nodes.
func (w *worker) begins(p *part, ask *engine.Ask, now time.Time) {
	if p.rescued = ask.OverdueBy > 0; p.rescued {
		p.rescue = now.Add(w.rescueWait())
		ask.Slots = w.foreign()
	}
}

// answer queues the leased tasks.
func (w *worker) answer(p *part, ask engine.Ask, batch engine.Batch, err error, asked time.Time) {
	targets := w.targets(batch.Leased)
	w.mu.Lock()
	defer w.mu.Unlock()
	now := time.Now()
	answered := w.endCall(p, ask, batch, err, now)
	if ask.Max == 0 {
		return
	}
	if !answered {
		w.passes()
		return
	}
	if w.topic.Pull { // nobody calls the targets
		clear(targets)
	}
	if full := len(batch.Leased) == ask.Max; ask.OverdueBy == 0 {
		w.tune(p, now, now.Sub(asked), len(batch.Leased), full)
	} else if w.counts.Rescued += uint64(len(batch.Leased)); full {
		p.rescue = now
	}
	for i := range batch.Leased {
		one := &batch.Leased[i]
		if one.Callback != nil {
			w.meets(now)
		}
		if w.givesUp(one, batch.Now) {
			continue
		}
		a := &attempt{Leased: *one, target: targets[i], queued: now, now: batch.Now, until: asked.Add(ask.Lease), lease: ask.Lease}
		if a.Attempts == 1 {
			a.due = now.Add(a.Due.Sub(batch.Now)) // a step of this node's clock does not matter
		}
		a.trial = ask.Max == 1 && w.hold.leases != leaseAny
		w.held[a] = struct{}{}
		if w.doubted(a) { // since the question
			w.recheck(now)
		}
		if w.stopping || a.trial && w.tries(a) { // since the call
			w.release(a, &w.counts.Returned, 0)
			continue
		}
		w.queue = append(w.queue, a)
	}
	if w.places == 0 { // since the call
		w.releaseQueue(0)
	}
	if len(w.held) > 0 {
		w.keepAt(now.Add(pauseFor(ask.Lease)))
	}
	if w.asked() == 0 && !w.tries(nil) {
		w.passes()
	}
	w.hire()
}
