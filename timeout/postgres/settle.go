package postgres

import (
	"cmp"
	"context"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/jackc/pgx/v5"

	"github.com/heartwheel-go/heartwheel/timeout/engine"
)

// settlement is an outcome and its index in Ask.Settle.
type settlement struct {
	engine.Outcome
	index int
}

// settlements returns the outcomes in the common order of locking rows. Of several outcomes for one
// lease it keeps the first.
func settlements(outcomes []engine.Outcome) []settlement {
	all := make([]settlement, len(outcomes))
	for i, outcome := range outcomes {
		all[i] = settlement{outcome, i}
	}
	slices.SortStableFunc(all, func(a, b settlement) int {
		return cmp.Or(cmp.Compare(a.Token.ID, b.Token.ID), cmp.Compare(a.Token.Lease, b.Token.Lease))
	})
	return slices.CompactFunc(all, func(a, b settlement) bool {
		return a.Token.ID == b.Token.ID && a.Token.Lease == b.Token.Lease
	})
}

// queueSettle adds the statements to settle outcomes: one deletes the Done tasks of a topic without
// Retain, one updates the others.
func (e *Engine) queueSettle(b *pgx.Batch, t *topic, outcomes []settlement, settled []bool) {
	var gone, stays []int
	for i, o := range outcomes {
		if o.As == engine.Done && t.Retain == 0 {
			gone = append(gone, i)
		} else {
			stays = append(stays, i)
		}
	}
	if len(gone) > 0 && len(stays) > 0 {
		// Two statements in a row would not lock in the common order. So lock all rows first.
		topics, ids := make([]int32, len(outcomes)), make([]string, len(outcomes))
		for i, o := range outcomes {
			topics[i], ids[i] = t.no, o.Token.ID
		}
		b.Queue(e.sql.Lock, topics, ids)
	}
	if len(gone) > 0 {
		ids, leases := tokensOf(outcomes, gone)
		b.Queue(e.sql.SettleDone, t.no, ids, leases).Query(setFound(settled, gone))
	}
	if len(stays) > 0 {
		ids, leases := tokensOf(outcomes, stays)
		args := append(append([]any{t.no, ids, leases}, ends(outcomes, stays)...), t.Retain > 0)
		b.Queue(e.sql.Settle, args...).Query(setFound(settled, stays))
	}
}

func tokensOf(outcomes []settlement, which []int) (ids []string, leases []int64) {
	ids, leases = make([]string, len(which)), make([]int64, len(which))
	for n, i := range which {
		ids[n], leases[n] = outcomes[i].Token.ID, outcomes[i].Token.Lease
	}
	return ids, leases
}

// setFound reads the numbers of the rows found, from 1. For number n it sets found[which[n-1]].
func setFound(found []bool, which []int) func(pgx.Rows) error {
	return func(rows pgx.Rows) error {
		var n int64
		_, err := pgx.ForEachRow(rows, []any{&n}, func() error {
			found[which[n-1]] = true
			return nil
		})
		return err
	}
}

// ends returns outcomes as arguments of a statement: see settle.sql.
func ends(outcomes []settlement, which []int) []any {
	n := len(which)
	as, release, newRun, failures := make([]int16, n), make([]bool, n), make([]bool, n), make([]string, n)
	due, after, started, took := make([]int64, n), make([]int64, n), make([]int64, n), make([]int64, n)
	for k, i := range which {
		o := outcomes[i]
		as[k], newRun[k] = int16(o.As), o.NewRun && o.As == engine.Pending
		release[k] = o.Release && o.As != engine.Done
		due[k], after[k] = when(o.Due, o.After)
		failures[k], took[k] = clean(o.Error), int64(o.Took)
		if !o.Started.IsZero() {
			started[k] = o.Started.UnixMicro()
		}
	}
	return []any{as, due, after, release, newRun, failures, started, took}
}

// clean returns text as PostgreSQL can keep it: U+FFFD stands for each NUL, and for each run of
// bytes outside UTF-8.
func clean(text string) string {
	if utf8.ValidString(text) && !strings.Contains(text, "\x00") {
		return text
	}
	return strings.ReplaceAll(strings.ToValidUTF8(text, "\ufffd"), "\x00", "\ufffd")
}

// Extend implements engine.Engine.
func (e *Engine) Extend(ctx context.Context, tokens []engine.Token, lease time.Duration) ([]bool, error) {
	key := func(i int) engine.Key { return tokens[i].Key }
	return inRounds(ctx, e, e.direct(), "extending leases", len(tokens), key, nil, func(held []bool, b *pgx.Batch, ts targets, _ bool) {
		topics, ids := ts.columns()
		leases, which := make([]int64, len(ts)), make([]int, len(ts))
		for i, t := range ts {
			leases[i], which[i] = tokens[t.index].Lease, t.index
			t.topic.frontier.leases(engine.CeilMillis(lease))
		}
		b.Queue(e.sql.Extend, topics, ids, leases, engine.CeilMillis(lease)).Query(setFound(held, which))
	})
}

// Executions implements engine.Log. The log gets an attempt when it is settled, except for a
// released one, or when its task is leased again after the end of the lease. A successful
// attempt is logged only in topics with a Retain, also one before another run. Maintain deletes
// executions older than Topic.RetainLog. The log of a task is deleted with the task, and by a set over it.
func (e *Engine) Executions(ctx context.Context, key engine.Key, limit int) ([]engine.Execution, error) {
	var executions []engine.Execution
	err := e.transact(ctx, "reading executions", func(b *pgx.Batch) {
		executions = nil
		b.Queue(e.sql.Executions, key.Topic, key.ID, max(limit, 0)).Query(func(rows pgx.Rows) (err error) {
			executions, err = pgx.CollectRows(rows, scanExecution)
			return err
		})
	})
	return executions, err
}

func scanExecution(row pgx.CollectableRow) (x engine.Execution, err error) {
	var started, took int64
	var as int16
	err = row.Scan(&x.Version, &x.Attempt, &x.Node, &started, &took, &as, &x.Error)
	x.Took, x.As = time.Duration(took), engine.State(as)
	if started != 0 {
		x.Started = time.UnixMicro(started)
	}
	return x, err
}
