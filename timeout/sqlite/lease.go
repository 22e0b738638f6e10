package sqlite

import (
	"cmp"
	"context"
	"database/sql"
	"fmt"
	"slices"
	"time"

	"github.com/heartwheel-go/heartwheel/timeout/engine"
)

// Lease implements engine.Engine. It handles more than 512 outcomes or tasks in several
// transactions.
func (e *Engine) Lease(ctx context.Context, ask engine.Ask) (engine.Batch, error) {
	return call(ctx, e, "leasing", func() (batch engine.Batch, err error) {
		x := &leaseCall{ask: ask, settle: ask.Settle}
		if len(ask.Settle) == 0 {
			t, err := existing(ctx, e.reader, ask.Topic)
			if err != nil {
				return batch, err
			}
			if batch, err = x.look(ctx, e.reader, t, now()); err != nil || batch.Next.IsZero() || batch.Next.UnixMilli() > x.latest(batch.Now.UnixMilli()) {
				return batch, err // an idle engine does only this
			}
		}
		batch.Settled = make([]bool, 0, len(ask.Settle))
		for more := true; more; {
			some, err := within(ctx, e.write, x.round)
			if err != nil && len(batch.Leased) == 0 {
				return engine.Batch{}, err
			}
			if err != nil { // keep the leases of earlier transactions
				batch.Next = batch.Now
				break
			}
			batch.Now, batch.Next = some.Now, some.Next
			batch.Settled, batch.Leased = append(batch.Settled, some.Settled...), append(batch.Leased, some.Leased...)
			x.settle, x.ask.Max = x.settle[len(some.Settled):], x.ask.Max-len(some.Leased)
			more = len(x.settle) > 0 || ctx.Err() == nil && (x.moved || len(some.Leased) == chunk && x.ask.Max > 0)
		}
		batch.Leased = engine.Lasting(batch.Leased)
		return batch, nil
	})
}

// leaseCall is one call of Lease.
type leaseCall struct {
	ask    engine.Ask       // Max is the remaining one
	settle []engine.Outcome // the remaining ones
	moved  bool             // in the last transaction moved tasks may stand before what is due
}

// latest returns the latest time of a task to be leased: Late before now.
func (x *leaseCall) latest(now int64) int64 { return now - engine.CeilMillis(x.ask.OverdueBy) }

// inSlots returns the SQL condition for some slots, and the arguments, with those before. It is empty for all slots.
func inSlots(t *topic, slots []int, before ...any) (condition string, args []any) {
	asked := t.Asked(slots)
	if len(asked) == t.Slots {
		return "", before
	}
	n := len(before)
	return fmt.Sprintf(" AND (hash & ?%d) IN (SELECT value FROM json_each(?%d))", n+1, n+2), append(before, t.Slots-1, array(asked))
}

// look returns a batch with the time of the next due task.
func (x *leaseCall) look(ctx context.Context, s *session, t *topic, at int64) (engine.Batch, error) {
	batch := engine.Batch{Now: time.UnixMilli(at)}
	if x.ask.Max <= 0 || t.Paused {
		batch.Next = t.PausedUntil
		return batch, nil
	}
	next, err := x.next(ctx, s, t, at)
	if next != none {
		batch.Next = time.UnixMilli(next)
	}
	return batch, err
}

// none is the time of no task.
const none = 1<<63 - 1

// lookAhead is the greatest number of tasks read in a search for the next due task. Tasks of
// other slots, and tasks moved to a later time, count as well.
const lookAhead = 1000

// next returns the time of the next due task. It reads only the first of the later tasks. If none
// of them is in the slots of the ask, nothing is due before the last of them.
func (x *leaseCall) next(ctx context.Context, s *session, t *topic, now int64) (int64, error) {
	condition, args := inSlots(t, x.ask.Slots, t.no, now, 1)
	at := int64(none)
	due, err := one(ctx, s, dueQuery("at, seq", condition), args, &at, new(int64))
	if err != nil || due {
		return at, err
	}
	first, seen := int64(none), 0
	args[2] = lookAhead
	err = each(ctx, s, laterQuery(condition), args, func(rows *sql.Rows) error {
		var at, due int64
		var mine bool
		if err := rows.Scan(&at, &due, &mine, new(int64)); err != nil {
			return err
		}
		if seen++; mine {
			first = min(first, due)
		}
		if at >= first || seen == lookAhead {
			first = min(first, at)
			return errEnough
		}
		return nil
	})
	return first, err
}

// dueQuery reads the first due tasks, by the times of the index.
func dueQuery(columns, condition string) string {
	half := "SELECT " + columns + " FROM hw_tasks WHERE topic = ?1 AND state = %d AND at <= ?2" + condition
	return fmt.Sprintf(half+" UNION ALL "+half+" ORDER BY at, seq LIMIT ?3 + 0", engine.Pending, engine.Running)
}

// laterQuery reads the later tasks, in the order of the index.
func laterQuery(condition string) string {
	half := "SELECT at, %s, true" + condition + ", seq FROM hw_tasks WHERE topic = ?1 AND state = %d AND at > ?2"
	return fmt.Sprintf(half+" UNION ALL "+half+" ORDER BY at, seq LIMIT ?3 + 0", "max(at, due)", engine.Pending, "at", engine.Running)
}

// round settles and leases as much as fits into one transaction. It leases once all outcomes are settled.
func (x *leaseCall) round(ctx context.Context, s *session) (engine.Batch, error) {
	t, err := existing(ctx, s, x.ask.Topic)
	if err != nil {
		return engine.Batch{}, err
	}
	at := now()
	x.moved = false
	batch := engine.Batch{Now: time.UnixMilli(at)}
	batch.Settled, err = settle(ctx, s, t, x.settle[:min(len(x.settle), chunk)], at)
	if err != nil || x.ask.Max <= 0 || t.Paused || len(batch.Settled) < len(x.settle) {
		batch.Next = t.PausedUntil
		return batch, err
	}
	due, err := x.due(ctx, s, t, at)
	if err != nil {
		return batch, err
	}
	l := leasing{t: t, node: x.ask.Node, at: at, until: at + engine.CeilMillis(x.ask.Lease)}
	if batch.Leased, err = l.take(ctx, s, due); err != nil {
		return batch, err
	}
	slices.SortStableFunc(batch.Leased, func(a, b engine.Leased) int {
		return cmp.Or(a.Due.Compare(b.Due), cmp.Compare(a.Version, b.Version))
	})
	seen, err := x.look(ctx, s, t, at)
	batch.Next = seen.Next
	return batch, err
}

// refileRounds is the greatest number of searches for moved tasks in one transaction, or for a page of a list.
const refileRounds = 8

// due returns the tasks to lease, the earliest first. It files moved tasks at their later times, as far as they come before
// these. Where one is, there may be many, so it does not search beyond refileRounds.
func (x *leaseCall) due(ctx context.Context, s *session, t *topic, at int64) ([]*found, error) {
	limit := min(x.ask.Max, chunk)
	condition, args := inSlots(t, x.ask.Slots, t.no, x.latest(at), limit)
	for range refileRounds {
		var moved []int64
		bytes := 0
		due, err := collect(ctx, s, dueQuery(foundColumns, condition), args, scanFound)
		for _, f := range due {
			if f.due > f.at && f.state == engine.Pending {
				moved = append(moved, f.seq)
			}
		}
		if err != nil || len(moved) == 0 {
			due = due[:min(len(due), limit)]
			for n, f := range due {
				if bytes += f.size; n > 0 && bytes > maxBytes {
					return due[:n], err
				}
			}
			return due, err
		}
		if err := fileAtDue(ctx, s, moved); err != nil {
			return nil, err
		}
		args[2] = chunk
	}
	x.moved = true
	return nil, nil
}

// fileAtDue files tasks at their later times, if they still wait for these.
func fileAtDue(ctx context.Context, s *session, moved []int64) error {
	_, err := s.ExecContext(ctx, "UPDATE hw_tasks SET at = due WHERE seq IN (SELECT value FROM json_each(?)) AND state = 1 AND due > at", array(moved))
	return err
}

// maxBytes is the size of payloads, in bytes, after which a transaction leases no further task.
// So it exceeds the limit by one task at most. Large payloads must burden neither other writers
// nor the memory.
const maxBytes = 4 << 20

// leasing is the common part of all leases of one transaction.
type leasing struct {
	t         *topic
	node      string
	at, until int64
}

// take leases due tasks.
func (l *leasing) take(ctx context.Context, s *session, due []*found) ([]engine.Leased, error) {
	if len(due) == 0 {
		return nil, nil
	}
	seqs := make([]int64, 0, len(due))
	bySeq := make(map[int64]*found, len(due))
	for _, f := range due {
		if f.state == engine.Running {
			if err := l.expire(ctx, s, f); err != nil {
				return nil, err
			}
		}
		seqs, bySeq[f.seq] = append(seqs, f.seq), f
	}
	number, err := numbers(ctx, s, 1)
	if err != nil {
		return nil, err
	}
	leased := make([]engine.Leased, 0, len(seqs))
	err = each(ctx, s, "UPDATE hw_tasks SET state = 2, at = ?, span = ?, attempts = attempts + 1, lease = ?, node = ? WHERE seq IN (SELECT value FROM json_each(?)) RETURNING "+columns,
		[]any{l.until, l.until - l.at, number, l.node, array(seqs)}, func(rows *sql.Rows) error {
			r, err := scanTask(rows, l.t.Name)
			token := engine.Token{Key: r.Key(), Lease: r.lease}
			leased = append(leased, engine.Leased{Task: r.Task, Token: token, Again: bySeq[r.seq].state == engine.Running})
			return err
		})
	return leased, err
}

// expire notes the attempt of a lease that has ended by itself.
func (l *leasing) expire(ctx context.Context, s *session, f *found) error {
	text := engine.LeaseEnded(f.node, f.attempts)
	outcome := engine.Outcome{As: engine.Pending, Error: text[:min(len(text), engine.MaxError)]}
	if _, err := s.ExecContext(ctx, "UPDATE hw_tasks SET error = ? WHERE seq = ?", outcome.Error, f.seq); err != nil {
		return err
	}
	return remember(ctx, s, l.t, f, outcome, l.at)
}
