package postgres

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/heartwheel-go/heartwheel/timeout/engine"
)

// maxBytes bounds the payloads read by one statement, to save memory. It reads one more at most.
const maxBytes = 4 << 20

// window bounds the due tasks read in search of those in a node's slots. A backlog of others can be a
// million tasks, and takes 150ms to read.
const window = 10_000

// lockedWait is the wait for a due task that cannot be leased: somebody's transaction has locked it. Nobody
// tells when it ends.
const lockedWait = 20 * time.Millisecond

// Lease implements engine.Engine. If nothing is due, it writes nothing.
func (e *Engine) Lease(ctx context.Context, ask engine.Ask) (engine.Batch, error) {
	t, err := e.must(ctx, ask.Topic)
	if err == nil && len(ask.Slots) > 0 && slices.Max(ask.Slots) >= t.Slots {
		e.topics.forget(ask.Topic) // it has grown, elsewhere
		t, err = e.must(ctx, ask.Topic)
	}
	if err != nil {
		return engine.Batch{}, err
	}
	batch := engine.Batch{Settled: make([]bool, len(ask.Settle))}
	outcomes := settlements(ask.Settle)
	for len(outcomes) > maxChunk {
		if _, err := e.exchange(ctx, t, ask, outcomes[:maxChunk], limits{}, nil, nil, &batch); err != nil {
			return batch, err
		}
		outcomes = outcomes[maxChunk:]
	}
	s := newSlots(t, ask)
	if ask.Max <= 0 || s.none() {
		if batch.Now.IsZero() || len(outcomes) > 0 {
			_, err = e.exchange(ctx, t, ask, outcomes, limits{}, nil, nil, &batch)
		}
		return batch, err
	}
	t.frontier.leases(engine.CeilMillis(ask.Lease))
	err = e.take(ctx, t, ask, outcomes, s, &batch)
	batch.Leased = engine.Lasting(batch.Leased)
	return batch, err
}

// take leases up to ask.Max tasks and settles the outcomes with the first of them. An ask for late
// tasks does not peek.
func (e *Engine) take(ctx context.Context, t *topic, ask engine.Ask, outcomes []settlement, s *slots, batch *engine.Batch) error {
	if len(outcomes) == 0 && !t.busy.Load() && ask.OverdueBy == 0 {
		if due, err := e.peek(ctx, t, s, batch); err != nil || !due {
			return err
		}
	}
	settled, again := false, false
	for refiled := 0; ; {
		most := min(ask.Max-len(batch.Leased), maxChunk)
		limits := limits{most: most, look: most}
		if refiled > 0 { // perhaps many moved tasks stand before the due ones
			limits.look = maxChunk
		}
		var next *peeked
		if ask.OverdueBy == 0 && !t.busy.Load() { // a busy topic has a full batch again, and then the next time is now
			next = new(peeked)
		}
		before := len(batch.Leased)
		var err error
		refiled, err = e.exchange(ctx, t, ask, outcomes, limits, s, next, batch)
		if err != nil && (before > 0 || settled) { // these count; the caller can ask for more again
			batch.Next = batch.Now
			return nil
		}
		if err != nil {
			return err
		}
		settled, outcomes = len(ask.Settle) > 0, nil
		found := len(batch.Leased) - before
		full, due := found == limits.most || found+refiled == limits.look, false
		if next != nil {
			due, err = e.seen(t, next, batch)
			full = full && due
		}
		if ask.OverdueBy == 0 {
			t.busy.Store(full)
		}
		switch {
		case !full && ask.OverdueBy > 0:
			return nil
		case !full:
			// The leases count, whatever becomes of this.
			if next == nil {
				due, err = e.peek(ctx, t, s, batch)
			}
			if err != nil && len(batch.Leased) == 0 && !settled {
				return err
			}
			if err != nil {
				batch.Next = batch.Now
			}
			if !due || found+refiled > 0 {
				return nil
			}
			if again {
				batch.Next = batch.Now.Add(lockedWait)
				return nil
			}
			s, again = s.all(), true // others have a backlog, or it was not due yet
		case len(batch.Leased) == ask.Max:
			batch.Next = batch.Now
			return nil
		}
	}
}

// limits are the largest numbers of tasks to lease and to look at.
type limits struct{ most, look int }

// exchange settles and leases in one transaction, and looks what is due next, unless next is nil. It returns the number of
// tasks filed again: moved tasks, due later than the index said.
func (e *Engine) exchange(ctx context.Context, t *topic, ask engine.Ask, outcomes []settlement, limits limits, s *slots, next *peeked, batch *engine.Batch) (refiled int, err error) {
	var now int64
	var leased leases
	settled := make([]bool, len(outcomes))
	err = e.transact(ctx, "settling and leasing tasks of "+t.Name, func(b *pgx.Batch) {
		clear(settled)
		leased = leases{}
		e.queueSettle(b, t, outcomes, settled)
		if limits.most > 0 {
			sql, args := e.sql.Lease, []any{
				t.no, engine.CeilMillis(ask.OverdueBy), limits.look, engine.CeilMillis(ask.Lease), clean(ask.Node), limits.most,
				maxBytes, e.frontOf(t),
			}
			if s.wanted != nil {
				sql, args = e.sql.LeaseOwn, append(args, s.wanted, s.mask, window)
			}
			b.Queue(sql, args...).Query(func(rows pgx.Rows) error { return leased.read(rows, t.Name) })
		}
		b.Queue(e.sql.Now).QueryRow(func(row pgx.Row) error { return row.Scan(&now) })
		if next != nil {
			e.queuePeek(b, t, s, next)
		}
	})
	if err != nil {
		return 0, err
	}
	for i, o := range outcomes {
		batch.Settled[o.index] = settled[i]
	}
	batch.Now = time.UnixMilli(now)
	batch.Leased = append(batch.Leased, leased.leased...)
	return leased.refiled, nil
}

// peek reads the next due time. It reports whether a task is due now.
func (e *Engine) peek(ctx context.Context, t *topic, s *slots, batch *engine.Batch) (due bool, err error) {
	var p peeked
	err = e.transact(ctx, "looking what is due in "+t.Name, func(b *pgx.Batch) { e.queuePeek(b, t, s, &p) })
	if err != nil {
		return false, err
	}
	return e.seen(t, &p, batch)
}

// peeked is the answer of a look what is due next.
type peeked struct {
	there, paused bool
	now           int64
	until, next   *int64
}

func (e *Engine) queuePeek(b *pgx.Batch, t *topic, s *slots, p *peeked) {
	*p = peeked{}
	b.Queue(e.sql.Peek, t.no, s.wanted, s.mask, s.window(), e.frontOf(t)).QueryRow(func(row pgx.Row) error {
		err := row.Scan(&p.now, &p.paused, &p.until, &p.next)
		p.there = !errors.Is(err, pgx.ErrNoRows)
		if !p.there {
			return nil
		}
		return err
	})
}

// seen takes an answer. It reports whether a task is due now.
func (e *Engine) seen(t *topic, p *peeked, batch *engine.Batch) (due bool, err error) {
	if !p.there {
		e.topics.forget(t.Name)
		return false, notFound(t.Name)
	}
	batch.Now = time.UnixMilli(p.now)
	if p.paused {
		p.next = p.until
	}
	if p.next != nil {
		batch.Next = time.UnixMilli(*p.next)
	}
	due = p.next != nil && *p.next <= p.now
	if due {
		batch.Next = batch.Now
	}
	return due, nil
}

// slots are the slots to lease from.
type slots struct {
	wanted []int16 // nil for all
	mask   int16
}

func newSlots(t *topic, ask engine.Ask) *slots {
	s := &slots{mask: int16(t.Slots - 1)} //nolint:gosec // at most 1023
	asked := t.Asked(ask.Slots)
	all := make([]int16, len(asked))
	for i, slot := range asked {
		all[i] = int16(slot) //nolint:gosec // at most 1023
	}
	if len(all) < t.Slots {
		s.wanted = all
	}
	return s
}

// all returns all slots.
func (s *slots) all() *slots { return &slots{mask: s.mask} }

// window returns nil for all slots: without any others it is no bound.
func (s *slots) window() *int {
	if s.wanted == nil {
		return nil
	}
	bound := window
	return &bound
}

func (s *slots) none() bool { return s.wanted != nil && len(s.wanted) == 0 }

// leases are the results of a statement: leased tasks, and the number filed again.
type leases struct {
	leased  []engine.Leased
	numbers []int64 // positions among the named tasks, from 1
	refiled int
}

// read reads rows of a number, which is 0 if no tasks were named, a lease, whether there was one before, and a task.
func (l *leases) read(rows pgx.Rows, topic string) error {
	var lease int64
	var again bool
	return readTasks(rows, topic, func(number int64, task engine.Task) {
		if task.State == engine.Pending {
			l.refiled++
			return
		}
		l.leased = append(l.leased, engine.Leased{Task: task, Token: engine.Token{Key: task.Key(), Lease: lease}, Again: again})
		l.numbers = append(l.numbers, number)
	}, &lease, &again)
}
