package index

import (
	"context"
	"errors"
	"time"

	"github.com/heartwheel-go/heartwheel/timeout/engine"
)

// recheck is the pause before another look at a due task refused by the primary. The topic may be
// just paused, or the clocks may differ.
const recheck = 20 * time.Millisecond

// Lease implements engine.Engine. The index proposes due tasks, and the primary decides. If the
// index is away or full, Lease asks the primary for due tasks.
func (e *Engine) Lease(ctx context.Context, ask engine.Ask) (engine.Batch, error) {
	began := time.Now()
	batch, err := e.Primary.Lease(ctx, engine.Ask{Topic: ask.Topic, Node: ask.Node, Settle: ask.Settle})
	if err != nil {
		return batch, err
	}
	primary := read(batch.Now, began)
	e.settled(ctx, ask.Settle, batch.Settled, batch.Now.Add(-time.Since(began)))
	if ask.Max <= 0 {
		return batch, nil
	}
	if ask.OverdueBy > 0 { // the index can't select by lateness
		return e.fromPrimary(ctx, ask, batch)
	}
	horizon, err := e.load(ctx, ask.Topic, ask.Slots, batch.Now)
	if err != nil {
		e.warn("timeout/index: what is due soon is not in the index", err)
	}
	asked := time.Now()
	found, err := e.index.Lease(ctx, engine.Ask{
		Topic: ask.Topic, Node: ask.Node, Max: ask.Max, Lease: min(ask.Lease, e.cfg.Scan), Slots: ask.Slots,
	})
	if err != nil {
		e.reload(ask.Topic)
		e.unaligned()
		e.warn("timeout/index: the index does not say what is due", err)
		return e.fromPrimary(ctx, ask, batch)
	}
	if e.clock.compare(primary, read(found.Now, asked)) {
		e.reloadAll() // the entries in the index have wrong times
	}
	batch.Next = horizon // the primary may have more beyond
	if next := batch.Now.Add(found.Next.Sub(found.Now)); !found.Next.IsZero() && next.Before(horizon) {
		batch.Next = next
	}
	if len(found.Leased) == ask.Max {
		batch.Next = batch.Now
	}
	refused, err := e.claim(ctx, ask, found, &batch)
	if err != nil {
		return batch, err
	}
	for _, leased := range batch.Leased {
		if leased.Due.After(batch.Now) { // the primary has leased it, so its clock has reached Due
			batch.Now = leased.Due
		}
	}
	paused := refused && len(batch.Leased) == 0 // perhaps for long, and the primary knows
	if paused || !horizon.After(batch.Now) && len(found.Leased) < ask.Max {
		return e.fromPrimary(ctx, ask, batch)
	}
	return batch, nil
}

// fromPrimary adds due tasks to a batch, as the primary finds them.
func (e *Engine) fromPrimary(ctx context.Context, ask engine.Ask, batch engine.Batch) (engine.Batch, error) {
	ask.Settle, ask.Max = nil, ask.Max-len(batch.Leased)
	found, err := e.Primary.Lease(ctx, ask)
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
	batch.Next = found.Next
	if again := batch.Now.Add(e.cfg.Scan); batch.Next.IsZero() || again.Before(batch.Next) {
		batch.Next = again // Next may leave out tasks before that, if the primary is a Waker
	}
	return batch, err
}

// settled tells the index what became of tasks by outcomes that have had an effect. The primary settled the
// outcomes after began, by its own clock. The index hears of them later, and must not find a task
// late. So settled turns a wait for a while into a wait until a time.
func (e *Engine) settled(ctx context.Context, outcomes []engine.Outcome, settled []bool, began time.Time) {
	var ended []engine.Key
	var again []engine.Move
	for i, outcome := range outcomes {
		switch {
		case !settled[i]:
		case outcome.As == engine.Pending:
			due := time.UnixMilli(outcome.DueAt(began.UnixMilli()))
			again = append(again, engine.Move{Key: outcome.Token.Key, Due: e.clock.ofIndex(due)})
		default:
			ended = append(ended, outcome.Token.Key)
		}
	}
	e.drop(ctx, ended)
	if len(again) == 0 {
		return
	}
	if _, err := e.index.Move(ctx, again); err != nil {
		e.warn("timeout/index: tasks that wait again are found by a scan", err)
	}
}

// refresh tells the index the present state of tasks. Two callers that set the same task at the
// same time can tell the index in the wrong order. Then the primary refuses the index's version, and
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

// claim claims the found tasks in the primary. Then their entries wait in the index again, until the leases end in the
// primary, or are done. The leases of the index last no longer than a claim: nobody but the primary has to know of a
// lease. If the index can't be told, the entries come due again, and the primary refuses them.
// It reports whether the primary has refused due tasks.
func (e *Engine) claim(ctx context.Context, ask engine.Ask, found engine.Batch, batch *engine.Batch) (refused bool, err error) {
	if len(found.Leased) == 0 {
		return false, nil
	}
	wanted := make([]engine.Wanted, len(found.Leased))
	outcomes := make([]engine.Outcome, len(found.Leased))
	for i, entry := range found.Leased {
		wanted[i] = engine.Wanted{ID: entry.ID, Version: versionOf(entry.Task), At: e.clock.ofPrimary(entry.Due)}
		outcomes[i] = engine.Outcome{Token: entry.Token, As: engine.Pending, After: e.cfg.Scan, Release: true}
	}
	claimed, failed := e.Claim(ctx, ask.Topic, ask.Node, wanted, ask.Lease)
	var gone []engine.Key
	for i, c := range claimed {
		entry, outcome := found.Leased[i], &outcomes[i]
		switch {
		case c.OK:
			batch.Leased = append(batch.Leased, c.Leased)
			outcome.Due = e.clock.ofIndex(c.Leased.Until)
		case c.At.IsZero():
			gone = append(gone, entry.Key())
			outcome.As = engine.Done
		case c.At.After(batch.Now):
			batch.Next = earlier(batch.Next, c.At)
			outcome.Due = e.clock.ofIndex(c.At)
		default:
			batch.Next = earlier(batch.Next, batch.Now.Add(recheck))
			outcome.After, refused = recheck, true
		}
	}
	if _, err := e.index.Lease(context.WithoutCancel(ctx), engine.Ask{Topic: ask.Topic, Node: ask.Node, Settle: outcomes}); err != nil {
		e.warn("timeout/index: entries come due again, and are refused", err)
	}
	if e.refresh(ctx, gone); len(gone) > 0 { // newer versions of them may be due
		batch.Next = batch.Now
	}
	return refused, failed
}

// earlier returns the earlier of two times. A zero a means none.
func earlier(a, b time.Time) time.Time {
	if a.IsZero() || b.Before(a) {
		return b
	}
	return a
}
