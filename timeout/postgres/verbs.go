package postgres

import (
	"context"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/heartwheel-go/heartwheel/timeout/engine"
)

// Move implements engine.Engine. Most moved tasks are pending, so it first moves those without
// locking any row in advance. A second transaction, with locks, is for the rest.
func (e *Engine) Move(ctx context.Context, moves []engine.Move) ([]engine.Answer, error) {
	answers, err := e.move(ctx, e.direct(), moves, false)
	if err != nil {
		return nil, err
	}
	var left []int
	var again []engine.Move
	for i, answer := range answers {
		if answer.Was == engine.None {
			left, again = append(left, i), append(again, moves[i])
		}
	}
	others, err := e.move(ctx, e.direct(), again, true)
	if err != nil {
		return nil, err
	}
	for n, i := range left {
		answers[i] = others[n]
	}
	e.notifier.tell(soonMoved(moves)...)
	return answers, nil
}

// move moves tasks. Without lock it answers for the pending ones only.
func (e *Engine) move(ctx context.Context, exec executor, moves []engine.Move, lock bool) ([]engine.Answer, error) {
	return e.change(ctx, exec, "moving tasks", lock, len(moves), func(i int) engine.Key { return moves[i].Key }, func(batch *pgx.Batch, from int, ts targets, read func(pgx.Rows) error) {
		due, after, versions, some := make([]int64, len(ts)), make([]int64, len(ts)), make([]int64, len(ts)), make([]engine.Move, len(ts))
		for i, t := range ts {
			some[i] = moves[from+t.index]
			due[i], after[i] = when(some[i].Due, some[i].After)
			versions[i] = some[i].Version
		}
		topics, ids := ts.columns()
		batch.Queue(e.sql.Move, topics, ids, due, after, versions).Query(read)
		if exec.foreign {
			e.queueNotice(batch, soonMoved(some))
		}
	})
}

// Remove implements engine.Engine.
func (e *Engine) Remove(ctx context.Context, removals []engine.Removal) ([]engine.Answer, error) {
	return e.remove(ctx, e.direct(), removals)
}

func (e *Engine) remove(ctx context.Context, exec executor, removals []engine.Removal) ([]engine.Answer, error) {
	answers, err := e.change(ctx, exec, "removing tasks", true, len(removals), func(i int) engine.Key { return removals[i].Key }, func(batch *pgx.Batch, from int, ts targets, read func(pgx.Rows) error) {
		// One statement is for topics with a Retain, one for the others. Most batches need only one.
		for _, retained := range []bool{false, true} {
			var some targets
			var numbers, versions []int64
			var states []int16
			for i, t := range ts {
				if (t.topic.Retain > 0) == retained {
					some = append(some, t)
					numbers = append(numbers, int64(i+1))
					states = append(states, int16(removals[from+t.index].State))
					versions = append(versions, removals[from+t.index].Version)
				}
			}
			if len(some) == 0 {
				continue
			}
			sql := e.sql.Delete
			if retained {
				sql = e.sql.Remove
			}
			topics, ids := some.columns()
			batch.Queue(sql, topics, ids, numbers, states, versions).Query(read)
		}
	})
	if err == nil {
		err = e.tellEnded(ctx, exec, engine.EndedByRemoval(removals, answers))
	}
	if err != nil {
		return nil, err
	}
	return answers, nil
}

func keyOf(keys []engine.Key) func(int) engine.Key {
	return func(i int) engine.Key { return keys[i] }
}

// Replay implements engine.Engine.
func (e *Engine) Replay(ctx context.Context, keys []engine.Key) ([]engine.Answer, error) {
	answers, err := e.change(ctx, e.direct(), "replaying tasks", true, len(keys), keyOf(keys), func(batch *pgx.Batch, _ int, ts targets, read func(pgx.Rows) error) {
		topics, ids := ts.columns()
		batch.Queue(e.sql.Replay, topics, ids).Query(read)
	})
	if err == nil {
		for i, answer := range answers {
			if answer.Was == engine.Dead {
				e.notifier.tell(keys[i].Topic)
			}
		}
	}
	return answers, err
}

// change locks and reads tasks. Then the statement of effect changes those in a suitable state. Its
// answers override the ones read before: somebody may have set a missing task in between. Without lock, it
// locks and reads only if a key is repeated.
func (e *Engine) change(ctx context.Context, exec executor, doing string, lock bool, n int, key func(int) engine.Key,
	effect func(batch *pgx.Batch, from int, ts targets, read func(pgx.Rows) error),
) ([]engine.Answer, error) {
	answers := make([]engine.Answer, n)
	err := chunks(n, nil, func(from, to int) error {
		rounds, err := e.locate(ctx, exec, to-from, func(i int) engine.Key { return key(from + i) })
		if err != nil || len(rounds) == 0 {
			return err
		}
		return exec.send(ctx, doing, func(batch *pgx.Batch) {
			clear(answers[from:to])
			for _, ts := range rounds {
				read := readAnswers(func(n int64, answer engine.Answer) { answers[from+ts[n-1].index] = answer })
				if topics, ids := ts.columns(); lock || len(rounds) > 1 {
					batch.Queue(e.sql.Lock, topics, ids).Query(read)
				}
				effect(batch, from, ts, read)
			}
		})
	})
	if err != nil {
		return nil, err
	}
	return answers, nil
}

// readAnswers reads rows of a number, the state before, version and action time.
func readAnswers(found func(n int64, answer engine.Answer)) func(pgx.Rows) error {
	return func(rows pgx.Rows) error {
		var n, version, due int64
		var was int16
		_, err := pgx.ForEachRow(rows, []any{&n, &was, &version, &due}, func() error {
			answer := engine.Answer{Was: engine.State(was), Version: version}
			if version != 0 {
				answer.Due = time.UnixMilli(due)
			}
			found(n, answer)
			return nil
		})
		return err
	}
}
