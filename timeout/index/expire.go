package index

import (
	"context"
	"errors"
	"time"

	"github.com/heartwheel-go/heartwheel/timeout/engine"
)

// recheck is the pause before another look at a due task refused by the truth. The topic may be
// just paused, or the clocks may differ.
const recheck = 20 * time.Millisecond

// sweepEvery is the time between two sweeps of ended leases.
const sweepEvery = time.Second

// Expire implements engine.Engine. The index proposes due tasks, and the truth decides. If the
// index is away or full, Expire asks the truth for due tasks.
func (e *Engine) Expire(ctx context.Context, ask engine.Ask) (engine.Batch, error) {
	began := time.Now()
	batch, err := e.Truth.Expire(ctx, engine.Ask{Topic: ask.Topic, Node: ask.Node, Settle: ask.Settle, Part: ask.Part})
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
	if ask.Late > 0 { // the index can't select by lateness
		e.settle(ctx, ask, done)
		return e.fromTruth(ctx, ask, batch)
	}
	horizon, err := e.load(ctx, ask.Topic, ask.Slots, batch.Now)
	if err != nil {
		e.warn("timeout/index: what is due soon is not in the index", err)
	}
	asked := time.Now()
	found, err := e.index.Expire(ctx, engine.Ask{
		Topic: ask.Topic, Node: ask.Node, Settle: done, Max: ask.Max, Lease: ask.Lease, Slots: ask.Slots,
	})
	if err != nil {
		e.reload(ask.Topic)
		e.unaligned()
		e.warn("timeout/index: the index does not say what is due", err)
		return e.fromTruth(ctx, ask, batch)
	}
	if e.clock.compare(truth, read(found.Now, asked)) {
		e.reloadAll() // the entries in the index have wrong times
	}
	batch.Next = horizon // the truth may have more beyond
	if next := batch.Now.Add(found.Next.Sub(found.Now)); !found.Next.IsZero() && next.Before(horizon) {
		batch.Next = next
	}
	if len(found.Leased) == ask.Max {
		batch.Next = batch.Now
	}
	if err := e.claim(ctx, ask, found, &batch); err != nil {
		return batch, err
	}
	for _, leased := range batch.Leased {
		if leased.Due.After(batch.Now) { // the truth has leased it, so its clock has reached Due
			batch.Now = leased.Due
		}
	}
	if !horizon.After(batch.Now) && len(found.Leased) < ask.Max {
		return e.fromTruth(ctx, ask, batch)
	}
	return batch, nil
}

// fromTruth adds due tasks to a batch, as the truth finds them.
func (e *Engine) fromTruth(ctx context.Context, ask engine.Ask, batch engine.Batch) (engine.Batch, error) {
	ask.Settle, ask.Max = nil, ask.Max-len(batch.Leased)
	found, err := e.Truth.Expire(ctx, ask)
	if err != nil && !errors.Is(err, engine.ErrPartial) {
		if len(batch.Leased) > 0 {
			return batch, nil // the caller must get the leased tasks; the error comes again
		}
		return batch, err
	}
	if found.Now.After(batch.Now) {
		batch.Now = found.Now
	}
	batch.Leased = engine.Lasting(append(batch.Leased, found.Leased...))
	batch.Died = append(batch.Died, found.Died...)
	batch.Next = found.Next
	if again := batch.Now.Add(e.cfg.Scan); batch.Next.IsZero() || again.Before(batch.Next) {
		batch.Next = again // Next may leave out tasks before that, if the truth is a Waker
	}
	return batch, err
}

// settled translates outcomes of the truth's leases into outcomes for the index. If another
// process has the lease in the index, settled returns the task in others. The truth settled the
// outcomes after began, by its own clock. The index hears of them later, and must not find a task
// late. So settled turns a wait for a while into a wait until a time.
func (e *Engine) settled(outcomes []engine.Outcome, settled []bool, began time.Time) (done []engine.Outcome, others []engine.Key) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.sweep()
	for i, outcome := range outcomes {
		own := e.leases.Get(outcome.Token)
		if own.until.IsZero() {
			if settled[i] {
				others = append(others, outcome.Token.Key)
			}
			continue
		}
		e.leases.Delete(outcome.Token)
		as := outcome.As
		if as == engine.Dead {
			as = engine.Done // the index has no use for dead tasks
		}
		done = append(done, engine.Outcome{Token: own.token, As: as, Anew: outcome.Anew, Due: e.clock.ofIndex(time.UnixMilli(outcome.DueAt(began.UnixMilli())))})
	}
	return done, others
}

// sweep forgets ended leases: another node settled them, or none did. The caller holds e.mu.
func (e *Engine) sweep() {
	now := time.Now()
	if now.Sub(e.swept) < sweepEvery {
		return
	}
	e.swept = now
	var ended []engine.Token
	for token, own := range e.leases.All() {
		if now.After(own.until) {
			ended = append(ended, token)
		}
	}
	for _, token := range ended {
		e.leases.Delete(token)
	}
}

// refresh tells the index the present state of tasks. Two callers that set the same task at the
// same time can tell the index in the wrong order. Then the truth refuses the index's version, and
// refresh mends the entry. If the index can't be told, a scan mends it.
func (e *Engine) refresh(ctx context.Context, keys []engine.Key) {
	if len(keys) == 0 {
		return
	}
	tasks, err := e.Get(ctx, keys)
	if err != nil {
		e.reload(keys[0].Topic)
		e.warn("timeout/index: the index is not told what became of tasks", err)
	}
	var waiting []engine.Task
	var ended []engine.Key
	for _, task := range tasks { // after an error, only some tasks are known
		switch {
		case task.State == engine.Pending || task.State == engine.Running:
			waiting = append(waiting, e.entry(task.Key(), task.Version, task.Until))
		case task.State != engine.None || err == nil:
			ended = append(ended, task.Key())
		}
	}
	e.drop(ctx, ended)
	if _, err := e.put(ctx, waiting); err != nil {
		e.reload(keys[0].Topic)
		e.warn("timeout/index: the index is not told what became of tasks", err)
	}
}

// settle settles leases in the index alone. If that fails, the entries come due again, and the truth
// refuses them.
func (e *Engine) settle(ctx context.Context, ask engine.Ask, done []engine.Outcome) {
	if len(done) == 0 {
		return
	}
	if _, err := e.index.Expire(ctx, engine.Ask{Topic: ask.Topic, Node: ask.Node, Settle: done}); err != nil {
		e.warn("timeout/index: entries stay in the index, and are refused when due", err)
	}
}

// claim leases the found tasks in the truth. It settles the refused entries in the index at once.
func (e *Engine) claim(ctx context.Context, ask engine.Ask, found engine.Batch, batch *engine.Batch) error {
	if len(found.Leased) == 0 {
		return nil
	}
	wanted := make([]engine.Wanted, len(found.Leased))
	for i, entry := range found.Leased {
		wanted[i] = engine.Wanted{ID: entry.ID, Version: versionOf(entry.Task), At: e.clock.ofTruth(entry.Due)}
	}
	claimed, err := e.Claim(ctx, ask.Topic, ask.Node, wanted, ask.Lease)
	var refused []engine.Outcome
	if err != nil {
		for _, entry := range found.Leased {
			refused = append(refused, engine.Outcome{Token: entry.Token, As: engine.Pending, After: e.cfg.Scan, Refund: true})
		}
		e.settle(context.WithoutCancel(ctx), ask, refused)
		return err
	}
	var gone []engine.Key
	until := time.Now().Add(ask.Lease)
	e.mu.Lock()
	for i, c := range claimed {
		entry := found.Leased[i]
		switch {
		case c.OK:
			e.leases.Set(c.Leased.Token, lease{entry.Token, until})
			batch.Leased = append(batch.Leased, c.Leased)
		case c.Died:
			batch.Died = append(batch.Died, entry.Key())
			refused = append(refused, engine.Outcome{Token: entry.Token, As: engine.Done})
		case c.At.IsZero():
			gone = append(gone, entry.Key())
			refused = append(refused, engine.Outcome{Token: entry.Token, As: engine.Done})
		case c.At.After(batch.Now):
			batch.Next = earlier(batch.Next, c.At)
			refused = append(refused, engine.Outcome{Token: entry.Token, As: engine.Pending, Due: e.clock.ofIndex(c.At), Refund: true})
		default:
			batch.Next = earlier(batch.Next, batch.Now.Add(recheck))
			refused = append(refused, engine.Outcome{Token: entry.Token, As: engine.Pending, After: recheck, Refund: true})
		}
	}
	e.mu.Unlock()
	e.settle(ctx, ask, refused)
	e.refresh(ctx, gone)
	return nil
}

// Extend implements engine.Engine.
func (e *Engine) Extend(ctx context.Context, tokens []engine.Token, length time.Duration) ([]bool, error) {
	held, err := e.Truth.Extend(ctx, tokens, length)
	partial := errors.Is(err, engine.ErrPartial)
	if err != nil && !partial {
		return nil, err
	}
	var own []engine.Token
	until := time.Now().Add(length)
	e.mu.Lock()
	for i, token := range tokens {
		if of := e.leases.Get(token); !of.until.IsZero() && held[i] {
			own = append(own, of.token)
			e.leases.Set(token, lease{of.token, until})
		} else if !held[i] && !partial {
			e.leases.Delete(token)
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

// earlier returns the earlier of two times. A zero a means none.
func earlier(a, b time.Time) time.Time {
	if a.IsZero() || b.Before(a) {
		return b
	}
	return a
}
