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

// Expire is timeout.Engine's: the index says what could be due, and the truth decides.
func (e *Engine) Expire(ctx context.Context, ask timeout.Ask) (timeout.Batch, error) {
	began := time.Now()
	batch, err := e.Truth.Expire(ctx, timeout.Ask{Topic: ask.Topic, Node: ask.Node, Settle: ask.Settle})
	if err != nil {
		return batch, err
	}
	truth := read(batch.Now, began)
	done, others := e.settled(ask.Settle, batch.Settled, time.Since(began))
	if err := e.refresh(ctx, others); err != nil {
		return batch, err
	}
	if ask.Max <= 0 {
		e.settle(ctx, ask, done)
		return batch, nil
	}
	horizon, err := e.load(ctx, ask.Topic, ask.Slots, batch.Now)
	if err != nil {
		return batch, err
	}
	asked := time.Now()
	found, err := e.index.Expire(ctx, timeout.Ask{
		Topic: ask.Topic, Node: ask.Node, Settle: done, Max: ask.Max, Lease: ask.Lease, Slots: ask.Slots, Term: ask.Term,
	})
	if errors.Is(err, timeout.ErrNotFound) {
		err = e.makeTopics(ctx)
	}
	if err != nil {
		return batch, err
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
	err = e.claim(ctx, ask, found, &batch)
	for _, leased := range batch.Leased {
		if leased.Due.After(batch.Now) { // the truth has claimed it, so its clock was there
			batch.Now = leased.Due
		}
	}
	return batch, err
}

// settled returns the outcomes of the index's leases that belong to those of the truth, and
// the tasks whose leases another process has in the index. The truth has taken so long, of
// which a wait is cut, so that the index does not find a task later than it is due.
func (e *Engine) settled(outcomes []timeout.Outcome, settled []bool, took time.Duration) (done []timeout.Outcome, others []timeout.Key) {
	e.mu.Lock()
	defer e.mu.Unlock()
	for i, outcome := range outcomes {
		token, ok := e.leases[outcome.Token]
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
		done = append(done, timeout.Outcome{Token: token, As: as, After: max(outcome.After-took-time.Millisecond, 0)})
	}
	return done, others
}

// refresh has the index know what has become of tasks, whatever it knew. Two that set the same
// task at the same time can tell the index in the wrong order: then it is told again when the
// truth refuses the version.
func (e *Engine) refresh(ctx context.Context, keys []timeout.Key) error {
	if len(keys) == 0 {
		return nil
	}
	tasks, err := e.Get(ctx, keys)
	if err != nil {
		return err
	}
	var waiting []timeout.Task
	var ended []timeout.Key
	for _, task := range tasks {
		if task.State == timeout.Pending || task.State == timeout.Running {
			waiting = append(waiting, e.entry(task.Key(), task.Version, task.Until))
		} else {
			ended = append(ended, task.Key())
		}
	}
	e.drop(ctx, ended)
	_, err = e.put(ctx, waiting)
	return err
}

// settle tells the index alone. What it does not hear is due again, and refused.
func (e *Engine) settle(ctx context.Context, ask timeout.Ask, done []timeout.Outcome) {
	if len(done) == 0 {
		return
	}
	if _, err := e.index.Expire(ctx, timeout.Ask{Topic: ask.Topic, Node: ask.Node, Settle: done}); err != nil {
		e.cfg.Logger.Warn("timeout/index: entries stay in the index, and are refused when due", "entries", len(done), "err", err)
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
		e.settle(context.WithoutCancel(ctx), ask, refused(found.Leased, func(int) (time.Duration, bool) { return e.cfg.Scan, true }))
		return err
	}
	var gone []timeout.Key
	e.mu.Lock()
	for i, c := range claimed {
		switch {
		case c.OK:
			e.leases[c.Leased.Token] = found.Leased[i].Token
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
	e.settle(ctx, ask, refused(found.Leased, func(i int) (time.Duration, bool) {
		return wait(claimed[i], batch.Now), !claimed[i].OK && !claimed[i].At.IsZero()
	}))
	e.settle(ctx, ask, ended(found.Leased, claimed))
	return e.refresh(ctx, gone)
}

// wait returns for how long a task that was not due is left alone.
func wait(c timeout.Claimed, now time.Time) time.Duration {
	if c.At.After(now) {
		return c.At.Sub(now)
	}
	return recheck
}

// refused are the outcomes of entries that are to be looked at again.
func refused(entries []timeout.Leased, when func(int) (time.Duration, bool)) []timeout.Outcome {
	var outcomes []timeout.Outcome
	for i, entry := range entries {
		if after, ok := when(i); ok {
			outcomes = append(outcomes, timeout.Outcome{Token: entry.Token, As: timeout.Pending, After: after, Refund: true})
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
func (e *Engine) Extend(ctx context.Context, tokens []timeout.Token, lease time.Duration) ([]bool, error) {
	held, err := e.Truth.Extend(ctx, tokens, lease)
	partial := errors.Is(err, timeout.ErrPartial)
	if err != nil && !partial {
		return nil, err
	}
	var own []timeout.Token
	e.mu.Lock()
	for i, token := range tokens {
		if of, ok := e.leases[token]; ok && held[i] {
			own = append(own, of)
		} else if ok && !partial {
			delete(e.leases, token)
		}
	}
	e.mu.Unlock()
	if len(own) > 0 {
		if _, err := e.index.Extend(ctx, own, lease); err != nil {
			e.cfg.Logger.Warn("timeout/index: leases are not extended in the index", "leases", len(own), "err", err)
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
