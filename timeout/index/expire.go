package index

import (
	"context"
	"errors"
	"time"

	"github.com/heartwheel-go/heartwheel/timeout"
)

// recheck is how soon an entry is looked at again whose task the truth does not lease though
// it is due: a topic that is being paused, or a clock.
const recheck = 20 * time.Millisecond

// sweepEvery is how often leases that have ended are looked for.
const sweepEvery = time.Second

// Expire is timeout.Engine's: the index says what could be due, and the truth decides. What the
// index can't say, since it is away or full, the truth is asked for.
func (e *Engine) Expire(ctx context.Context, ask timeout.Ask) (timeout.Batch, error) {
	began := time.Now()
	batch, err := e.Truth.Expire(ctx, timeout.Ask{Topic: ask.Topic, Node: ask.Node, Settle: ask.Settle})
	if err != nil {
		return batch, err
	}
	truth := read(batch.Now, began)
	done, others := e.settled(ask.Settle, batch.Settled, batch.Now.Add(-time.Since(began)))
	e.refresh(ctx, others)
	if ask.Max <= 0 {
		e.settle(ctx, ask, done)
		return batch, nil
	}
	if ask.Late > 0 { // which the index does not know
		e.settle(ctx, ask, done)
		return e.fromTruth(ctx, ask, batch)
	}
	horizon, err := e.load(ctx, ask.Topic, ask.Slots, batch.Now)
	if err != nil {
		e.warn("timeout/index: what is due soon is not in the index", err)
	}
	asked := time.Now()
	found, err := e.index.Expire(ctx, timeout.Ask{
		Topic: ask.Topic, Node: ask.Node, Settle: done, Max: ask.Max, Lease: ask.Lease, Slots: ask.Slots, Term: ask.Term,
	})
	switch {
	case errors.Is(err, timeout.ErrFenced):
		return batch, err
	case err != nil:
		e.reload(ask.Topic)
		e.unaligned()
		e.warn("timeout/index: the index does not say what is due", err)
		return e.fromTruth(ctx, ask, batch)
	}
	if e.clock.compare(truth, read(found.Now, asked)) {
		e.reloadAll() // what is in the index has wrong times
	}
	batch.Next = shift(found.Next, batch.Now.Sub(found.Now))
	if batch.Next.After(horizon) {
		batch.Next = horizon
	}
	if len(found.Leased) == ask.Max {
		batch.Next = batch.Now
	}
	if err := e.claim(ctx, ask, found, &batch); err != nil {
		return batch, err
	}
	for _, leased := range batch.Leased {
		if leased.Due.After(batch.Now) { // the truth has claimed it, so its clock was there
			batch.Now = leased.Due
		}
	}
	if !horizon.After(batch.Now) && len(found.Leased) < ask.Max {
		return e.fromTruth(ctx, ask, batch)
	}
	return batch, nil
}

// fromTruth adds to a batch what is due in the truth.
func (e *Engine) fromTruth(ctx context.Context, ask timeout.Ask, batch timeout.Batch) (timeout.Batch, error) {
	ask.Settle, ask.Max = nil, ask.Max-len(batch.Leased)
	found, err := e.Truth.Expire(ctx, ask)
	if err != nil {
		if len(batch.Leased) > 0 {
			return batch, nil // those are leased; the error comes again
		}
		return batch, err
	}
	if found.Now.After(batch.Now) {
		batch.Now = found.Now
	}
	batch.Leased = append(batch.Leased, found.Leased...)
	batch.Died = append(batch.Died, found.Died...)
	batch.Next = found.Next
	if again := batch.Now.Add(e.cfg.Scan); batch.Next.IsZero() || again.Before(batch.Next) {
		batch.Next = again // the truth need not say what comes before that
	}
	return batch, nil
}

// settled returns the outcomes of the index's leases that belong to those of the truth, and
// the tasks whose leases another process has in the index. The truth has settled them after began, by
// its clock. A wait ends at a time, not after a while: the index hears of it later than the truth, and
// must not find a task later than it is due.
func (e *Engine) settled(outcomes []timeout.Outcome, settled []bool, began time.Time) (done []timeout.Outcome, others []timeout.Key) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.sweep()
	for i, outcome := range outcomes {
		own, ok := e.leases[outcome.Token]
		if !ok {
			if settled[i] {
				others = append(others, outcome.Token.Key)
			}
			continue
		}
		delete(e.leases, outcome.Token)
		as := outcome.As
		if as == timeout.Dead {
			as = timeout.Done // the index has no use for it
		}
		done = append(done, timeout.Outcome{Token: own.token, As: as, Due: e.clock.ofIndex(time.UnixMilli(outcome.DueAt(began.UnixMilli())))})
	}
	return done, others
}

// sweep forgets leases that have ended: they were settled by another node, or never. e.mu must
// be held.
func (e *Engine) sweep() {
	now := time.Now()
	if now.Sub(e.swept) < sweepEvery {
		return
	}
	e.swept = now
	for token, own := range e.leases {
		if now.After(own.until) {
			delete(e.leases, token)
		}
	}
}

// refresh has the index know what has become of tasks, whatever it knew. Two that set the same
// task at the same time can tell the index in the wrong order: then it is told again when the
// truth refuses the version. Where it can't be told, a scan does it.
func (e *Engine) refresh(ctx context.Context, keys []timeout.Key) {
	if len(keys) == 0 {
		return
	}
	tasks, err := e.Get(ctx, keys)
	if err != nil {
		e.reload(keys[0].Topic)
		e.warn("timeout/index: the index is not told what became of tasks", err)
	}
	var waiting []timeout.Task
	var ended []timeout.Key
	for _, task := range tasks { // with an error, those that are known
		switch {
		case task.State == timeout.Pending || task.State == timeout.Running:
			waiting = append(waiting, e.entry(task.Key(), task.Version, task.Until))
		case task.State != timeout.None || err == nil:
			ended = append(ended, task.Key())
		}
	}
	e.drop(ctx, ended)
	if _, err := e.put(ctx, waiting); err != nil {
		e.reload(keys[0].Topic)
		e.warn("timeout/index: the index is not told what became of tasks", err)
	}
}

// settle tells the index alone. What it does not hear is due again, and refused.
func (e *Engine) settle(ctx context.Context, ask timeout.Ask, done []timeout.Outcome) {
	if len(done) == 0 {
		return
	}
	if _, err := e.index.Expire(ctx, timeout.Ask{Topic: ask.Topic, Node: ask.Node, Settle: done}); err != nil {
		e.warn("timeout/index: entries stay in the index, and are refused when due", err)
	}
}

// claim leases in the truth what the index has found, and settles at once what is not to be
// had.
func (e *Engine) claim(ctx context.Context, ask timeout.Ask, found timeout.Batch, batch *timeout.Batch) error {
	if len(found.Leased) == 0 {
		return nil
	}
	wanted := make([]timeout.Wanted, len(found.Leased))
	for i, entry := range found.Leased {
		wanted[i] = timeout.Wanted{ID: entry.ID, Version: versionOf(entry.Task), At: e.clock.ofTruth(entry.Due)}
	}
	claimed, err := e.Claim(ctx, ask.Topic, ask.Node, wanted, ask.Lease)
	if err != nil {
		e.settle(context.WithoutCancel(ctx), ask, refused(found.Leased, func(int) (timeout.Outcome, bool) {
			return timeout.Outcome{After: e.cfg.Scan}, true
		}))
		return err
	}
	var gone []timeout.Key
	until := time.Now().Add(ask.Lease)
	e.mu.Lock()
	for i, c := range claimed {
		switch {
		case c.OK:
			e.leases[c.Leased.Token] = lease{found.Leased[i].Token, until}
			batch.Leased = append(batch.Leased, c.Leased)
		case c.Died:
			batch.Died = append(batch.Died, found.Leased[i].Key())
		case c.At.IsZero():
			gone = append(gone, found.Leased[i].Key())
		default:
			batch.Next = earlier(batch.Next, batch.Now.Add(wait(c, batch.Now)))
		}
	}
	e.mu.Unlock()
	e.settle(ctx, ask, refused(found.Leased, func(i int) (timeout.Outcome, bool) {
		return e.later(claimed[i], batch.Now), !claimed[i].OK && !claimed[i].At.IsZero()
	}))
	e.settle(ctx, ask, ended(found.Leased, claimed))
	e.refresh(ctx, gone)
	return nil
}

// wait returns for how long a task that was not due is left alone.
func wait(c timeout.Claimed, now time.Time) time.Duration {
	if c.At.After(now) {
		return c.At.Sub(now)
	}
	return recheck
}

// later is when the index looks again at a task that was not due: at its time, if that is to come.
func (e *Engine) later(c timeout.Claimed, now time.Time) timeout.Outcome {
	if c.At.After(now) {
		return timeout.Outcome{Due: e.clock.ofIndex(c.At)}
	}
	return timeout.Outcome{After: recheck}
}

// refused are the outcomes of entries that are to be looked at again.
func refused(entries []timeout.Leased, when func(int) (timeout.Outcome, bool)) []timeout.Outcome {
	var outcomes []timeout.Outcome
	for i, entry := range entries {
		if outcome, ok := when(i); ok {
			outcome.Token, outcome.As, outcome.Refund = entry.Token, timeout.Pending, true
			outcomes = append(outcomes, outcome)
		}
	}
	return outcomes
}

// ended are the outcomes of entries whose version is not there any more.
func ended(entries []timeout.Leased, claimed []timeout.Claimed) []timeout.Outcome {
	var outcomes []timeout.Outcome
	for i, c := range claimed {
		if !c.OK && c.At.IsZero() {
			outcomes = append(outcomes, timeout.Outcome{Token: entries[i].Token, As: timeout.Done})
		}
	}
	return outcomes
}

// Extend is timeout.Engine's.
func (e *Engine) Extend(ctx context.Context, tokens []timeout.Token, length time.Duration) ([]bool, error) {
	held, err := e.Truth.Extend(ctx, tokens, length)
	partial := errors.Is(err, timeout.ErrPartial)
	if err != nil && !partial {
		return nil, err
	}
	var own []timeout.Token
	until := time.Now().Add(length)
	e.mu.Lock()
	for i, token := range tokens {
		if of, ok := e.leases[token]; ok && held[i] {
			own = append(own, of.token)
			e.leases[token] = lease{of.token, until}
		} else if ok && !partial {
			delete(e.leases, token)
		}
	}
	e.mu.Unlock()
	if len(own) > 0 {
		if _, err := e.index.Extend(ctx, own, length); err != nil {
			e.warn("timeout/index: leases are not extended in the index", err)
		}
	}
	return held, err
}

// shift moves a time, other than the zero time.
func shift(t time.Time, d time.Duration) time.Time {
	if t.IsZero() {
		return t
	}
	return t.Add(d)
}

// earlier returns the earlier of two times, of which zero is none.
func earlier(a, b time.Time) time.Time {
	if a.IsZero() || b.Before(a) {
		return b
	}
	return a
}
