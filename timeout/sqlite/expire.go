package sqlite

import (
	"cmp"
	"context"
	"database/sql"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/heartwheel-go/heartwheel/timeout/engine"
)

// Expire implements engine.Engine. It handles more than 512 outcomes or tasks in several
// transactions.
func (e *Engine) Expire(ctx context.Context, ask engine.Ask) (engine.Batch, error) {
	if err := e.enter(ctx); err != nil {
		return engine.Batch{}, err
	}
	defer e.use.RUnlock()
	x := &expiry{ask: ask, settle: ask.Settle}
	batch := &x.batch
	batch.Settled = make([]bool, 0, len(ask.Settle))
	if len(ask.Settle) == 0 {
		busy, err := e.look(ctx, x)
		if err != nil || !busy {
			return *batch, e.wrap("looking for what is due", err)
		}
	}
	for {
		leased, died, settled := len(batch.Leased), len(batch.Died), len(batch.Settled)
		err := e.write(ctx, func(s session) error {
			batch.Leased, batch.Died, batch.Settled = batch.Leased[:leased], batch.Died[:died], batch.Settled[:settled]
			x.moved = false
			return x.round(context.Background(), s)
		})
		if leased > 0 && err != nil { // keep the leases of earlier transactions
			batch.Leased, batch.Died, batch.Next = engine.Lasting(batch.Leased[:leased]), batch.Died[:died], batch.Now
			return *batch, nil
		}
		if err != nil {
			return engine.Batch{}, e.wrap("expiring", err)
		}
		x.settle = ask.Settle[len(batch.Settled):]
		more := x.moved || len(batch.Leased)-leased == chunk && len(batch.Leased) < ask.Max
		if len(x.settle) == 0 && (!more || ctx.Err() != nil) {
			batch.Leased = engine.Lasting(batch.Leased)
			return *batch, nil
		}
	}
}

// expiry is one call of Expire.
type expiry struct {
	ask    engine.Ask
	settle []engine.Outcome // the remaining ones
	batch  engine.Batch
	moved  bool // in the last transaction moved tasks may stand before what is due
}

// latest returns the latest time of a task to be leased: Late before now.
func (x *expiry) latest(now int64) int64 { return now - engine.CeilMillis(x.ask.Late) }

// slots returns the SQL condition for the slots of an ask, with its arguments. It is empty for
// all slots.
func (x *expiry) slots(t *topic) (condition string, args []any) {
	return inSlots(t, x.ask.Slots)
}

func inSlots(t *topic, slots []int) (condition string, args []any) {
	if slots == nil {
		return "", nil
	}
	asked := t.Asked(slots)
	if len(asked) == t.Slots {
		return "", nil
	}
	return " AND (hash & ?) IN (SELECT value FROM json_each(?))", []any{t.Slots - 1, array(asked)}
}

// look reports whether there is work, without writing. An idle engine does only this.
func (e *Engine) look(ctx context.Context, x *expiry) (busy bool, err error) {
	t, err := existing(ctx, e.reader, x.ask.Topic)
	if err != nil {
		return false, err
	}
	at := now()
	x.batch.Now = time.UnixMilli(at)
	if x.ask.Max <= 0 || t.Paused {
		return false, nil
	}
	next, err := x.next(ctx, e.reader, t, at)
	if next == none {
		return false, err
	}
	x.batch.Next = time.UnixMilli(next)
	return next <= x.latest(at), err
}

// none is the time of no task.
const none = 1<<63 - 1

// lookAhead is the greatest number of tasks read in a search for the next due task. Tasks of
// other slots, and tasks moved to a later time, count as well.
const lookAhead = 1000

// next returns the time of the next due task. It reads only the first of the later tasks. If none
// of them is in the slots of the ask, nothing is due before the last of them.
func (x *expiry) next(ctx context.Context, s session, t *topic, now int64) (int64, error) {
	condition, args := x.slots(t)
	at := int64(none)
	due, err := one(ctx, s, dueQuery(numbered(condition, 3)), append([]any{t.no, now}, args...), &at, new(int64))
	if err != nil || due {
		return at, err
	}
	first, seen := int64(none), 0
	err = each(ctx, s, laterQuery(numbered(condition, 4)), append([]any{t.no, now, lookAhead}, args...), func(rows *sql.Rows) error {
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

// numbered numbers the arguments of a condition, beginning with first.
func numbered(condition string, first int) string {
	for n := first; strings.Contains(condition, "?)"); n++ {
		condition = strings.Replace(condition, "?)", "?"+strconv.Itoa(n)+")", 1)
	}
	return condition
}

// dueQuery reads the first due task, by the times of the index.
func dueQuery(condition string) string {
	half := "SELECT at, seq FROM hw_tasks WHERE topic = ?1 AND state = %d AND at <= ?2" + condition
	return fmt.Sprintf(half+" UNION ALL "+half+" ORDER BY at, seq LIMIT 1", engine.Pending, engine.Running)
}

// laterQuery reads the later tasks, in the order of the index.
func laterQuery(condition string) string {
	half := "SELECT at, %s, true" + condition + ", seq FROM hw_tasks WHERE topic = ?1 AND state = %d AND at > ?2"
	return fmt.Sprintf(half+" UNION ALL "+half+" ORDER BY at, seq LIMIT ?3 + 0", "max(at, due)", engine.Pending, "at", engine.Running)
}

// round settles and leases as much as fits into one transaction.
func (x *expiry) round(ctx context.Context, s session) error {
	t, err := existing(ctx, s, x.ask.Topic)
	if err != nil {
		return err
	}
	at := now()
	settled, err := settle(ctx, s, t, x.settle[:min(len(x.settle), chunk)], at)
	if err != nil {
		return err
	}
	if err := x.leaseDue(ctx, s, t, len(settled), at); err != nil {
		return err
	}
	x.batch.Settled = append(x.batch.Settled, settled...)
	return nil
}

// leaseDue leases due tasks, once all outcomes are settled.
func (x *expiry) leaseDue(ctx context.Context, s session, t *topic, settled int, at int64) error {
	x.batch.Now = time.UnixMilli(at)
	if x.ask.Max <= 0 || t.Paused || settled < len(x.settle) {
		return nil
	}
	next, err := x.next(ctx, s, t, at)
	if err == nil && next <= x.latest(at) {
		if err = x.lease(ctx, s, t, at); err == nil {
			next, err = x.next(ctx, s, t, at)
		}
	}
	x.batch.Next = time.Time{}
	if next != none {
		x.batch.Next = time.UnixMilli(next)
	}
	return err
}

// lease adds a chunk of leases to the batch.
func (x *expiry) lease(ctx context.Context, s session, t *topic, at int64) error {
	l := leasing{t: t, node: x.ask.Node, at: at, until: at + engine.CeilMillis(x.ask.Lease)}
	leased, err := l.lease(ctx, s, x, min(x.ask.Max-len(x.batch.Leased), chunk))
	if err != nil {
		return err
	}
	x.batch.Leased = append(x.batch.Leased, leased...)
	for _, id := range l.died {
		x.batch.Died = append(x.batch.Died, engine.Key{Topic: t.Name, ID: id})
	}
	return nil
}

// leasing is the common part of all leases of one transaction.
type leasing struct {
	t         *topic
	node      string
	at, until int64
	number    int64 // number of the leases
	died      []string
}

// maxBytes is the size of payloads, in bytes, after which a transaction leases no further task.
// So it exceeds the limit by one task at most. Large payloads must burden neither other writers
// nor the memory.
const maxBytes = 4 << 20

// outlived is a lease that has ended by itself.
type outlived struct {
	seq, at  int64
	id       string
	version  int64
	attempts int
	node     string
	size     int // size of the payload in bytes
}

// lease leases up to limit due tasks in the slots of the ask, the earliest first.
func (l *leasing) lease(ctx context.Context, s session, x *expiry, limit int) ([]engine.Leased, error) {
	condition, args := x.slots(l.t)
	if done, err := l.refile(ctx, s, condition, args, limit); err != nil || !done {
		x.moved = true
		return nil, err
	}
	due := append(append([]any{l.t.no, x.latest(l.at)}, args...), limit)
	var over []outlived
	err := each(ctx, s, "SELECT seq, at, id, version, attempts, node, coalesce(length(payload), 0) FROM hw_tasks WHERE topic = ? AND state = 2 AND at <= ?"+condition+
		" ORDER BY at, seq LIMIT ? + 0", due, func(rows *sql.Rows) error {
		var o outlived
		err := rows.Scan(&o.seq, &o.at, &o.id, &o.version, &o.attempts, &o.node, &o.size)
		over = append(over, o)
		return err
	})
	if err != nil {
		return nil, err
	}
	if len(over) > 0 {
		if over, limit, err = merge(ctx, s, over, condition, due); err != nil {
			return nil, err
		}
	}
	bytes := 0
	for n := range over {
		if bytes += over[n].size; n > 0 && bytes > maxBytes {
			over, limit = over[:n], 0
			break
		}
	}
	again, err := l.judge(ctx, s, over)
	if err != nil {
		return nil, err
	}
	if l.number == 0 {
		if l.number, err = numbers(ctx, s, 1); err != nil {
			return nil, err
		}
	}
	leased, err := l.take(ctx, s, again, true, "seq IN (SELECT value FROM json_each(?))", array(again))
	if err != nil || limit == 0 {
		return leased, err
	}
	due[len(due)-1] = limit
	waiting, err := l.take(ctx, s, nil, false, "seq IN (SELECT seq FROM (SELECT seq, sum(size) OVER (ORDER BY at, seq) - size AS before FROM ("+
		"SELECT seq, at, coalesce(length(payload), 0) AS size FROM hw_tasks WHERE topic = ? AND state = 1 AND at <= ?"+condition+
		" ORDER BY at, seq LIMIT ? + 0)) WHERE before <= ?)", append(due, maxBytes-bytes)...)
	leased = append(leased, waiting...)
	slices.SortStableFunc(leased, func(a, b engine.Leased) int {
		return cmp.Or(a.Due.Compare(b.Due), cmp.Compare(a.Version, b.Version))
	})
	return leased, err
}

// refileRounds is the greatest number of searches for moved tasks in one transaction, or for a page of a list.
const refileRounds = 8

// refile files moved tasks at their later times, as far as they come before the tasks to lease. Where
// one is, there may be many. The remaining tasks to lease are due. It reports whether it has finished within
// refileRounds.
func (l *leasing) refile(ctx context.Context, s session, condition string, args []any, limit int) (done bool, err error) {
	args = append(append([]any{l.t.no, l.at}, args...), limit)
	for range refileRounds {
		moved, err := integers(ctx, s, "SELECT seq FROM (SELECT seq, at, due FROM hw_tasks WHERE topic = ? AND state = 1 AND at <= ?"+condition+
			" ORDER BY at, seq LIMIT ? + 0) WHERE due > at", args...)
		if err != nil || len(moved) == 0 {
			return err == nil, err
		}
		if err := fileAtDue(ctx, s, moved); err != nil {
			return false, err
		}
		args[len(args)-1] = chunk
	}
	return false, nil
}

// fileAtDue files tasks at their later times, if they still wait for these.
func fileAtDue(ctx context.Context, s session, moved []int64) error {
	_, err := s.ExecContext(ctx, "UPDATE hw_tasks SET at = due WHERE seq IN (SELECT value FROM json_each(?)) AND state = 1 AND due > at", array(moved))
	return err
}

// merge returns the outlived leases that come before the waiting tasks, and the room left for
// waiting tasks. The last of args is the limit.
func merge(ctx context.Context, s session, over []outlived, condition string, args []any) ([]outlived, int, error) {
	var waiting []int64
	limit := args[len(args)-1].(int)
	err := each(ctx, s, "SELECT at FROM hw_tasks WHERE topic = ? AND state = 1 AND at <= ?"+condition+" ORDER BY at, seq LIMIT ? + 0",
		args, func(rows *sql.Rows) error {
			waiting = append(waiting, 0)
			return rows.Scan(&waiting[len(waiting)-1])
		})
	if err != nil {
		return nil, 0, err
	}
	n, w := 0, 0
	for n+w < limit && (n < len(over) || w < len(waiting)) {
		if w == len(waiting) || n < len(over) && over[n].at <= waiting[w] {
			n++
		} else {
			w++
		}
	}
	return over[:n], limit - n, nil
}

// judge makes tasks without a further attempt dead, and returns the others.
func (l *leasing) judge(ctx context.Context, s session, over []outlived) (again []int64, err error) {
	for _, o := range over {
		text := engine.LeaseEnded(o.node, o.attempts)
		text = text[:min(len(text), engine.MaxError)]
		state, until := engine.Running, o.at
		if o.attempts < l.t.Attempts() {
			again = append(again, o.seq)
		} else {
			l.died = append(l.died, o.id)
			state, until = engine.Dead, l.at
		}
		if _, err := s.ExecContext(ctx, "UPDATE hw_tasks SET state = ?, at = ?, lease = 0, error = ? WHERE seq = ?", int64(state), until, text, o.seq); err != nil {
			return nil, err
		}
		as := engine.Pending
		if state == engine.Dead {
			as = engine.Dead
		}
		h := &held{id: o.id, version: o.version, attempts: o.attempts, node: o.node}
		if err := remember(ctx, s, l.t, h, engine.Outcome{As: as, Error: text}, l.at); err != nil {
			return nil, err
		}
	}
	return again, nil
}

// take leases the tasks that match a condition.
func (l *leasing) take(ctx context.Context, s session, seqs []int64, again bool, condition string, args ...any) ([]engine.Leased, error) {
	if again && len(seqs) == 0 {
		return nil, nil
	}
	var leased []engine.Leased
	err := each(ctx, s, "UPDATE hw_tasks SET state = 2, at = ?, span = ?, attempts = attempts + 1, lease = ?, node = ? WHERE "+condition+
		" RETURNING "+columns, append([]any{l.until, l.until - l.at, l.number, l.node}, args...), func(rows *sql.Rows) error {
		r, err := scanTask(rows, l.t.Name)
		if err != nil {
			return err
		}
		leased = append(leased, engine.Leased{Task: r.Task, Token: token(r), Again: again})
		return nil
	})
	return leased, err
}

// token is the proof of a row's lease.
func token(r row) engine.Token {
	return engine.Token{Key: r.Key(), Lease: r.lease, Part: strconv.FormatInt(r.seq, 10)}
}
