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
	answers, err := twice(moves, func(some []engine.Move, again bool) ([]engine.Answer, error) {
		return e.move(ctx, e.direct(), some, again)
	})
	e.notifier.tell(soonMoved(moves)...)
	return answers, err
}

// twice calls do, and once more with those things whose answers have no version.
func twice[T any](things []T, do func(some []T, again bool) ([]engine.Answer, error)) ([]engine.Answer, error) {
	answers, err := do(things, false)
	var left []int
	var some []T
	for i, answer := range answers {
		if answer.Version == 0 {
			left, some = append(left, i), append(some, things[i])
		}
	}
	if err != nil || len(left) == 0 {
		return answers, err
	}
	others, err := do(some, true)
	if err != nil {
		return nil, err
	}
	for n, i := range left {
		answers[i] = others[n]
	}
	return answers, nil
}

// move moves tasks. Without lock it answers for the pending ones only.
func (e *Engine) move(ctx context.Context, exec executor, moves []engine.Move, lock bool) ([]engine.Answer, error) {
	return e.change(ctx, exec, "moving tasks", lock, len(moves), func(i int) engine.Key { return moves[i].Key }, func(batch *pgx.Batch, ts targets, read func(pgx.Rows) error) {
		due, after, versions, some := make([]int64, len(ts)), make([]int64, len(ts)), make([]int64, len(ts)), make([]engine.Move, len(ts))
		for i, t := range ts {
			some[i] = moves[t.index]
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
	answers, err := e.change(ctx, exec, "removing tasks", true, len(removals), func(i int) engine.Key { return removals[i].Key }, func(batch *pgx.Batch, ts targets, read func(pgx.Rows) error) {
		// One statement is for topics with a Retain, one for the others. Most batches need only one.
		for _, retained := range []bool{false, true} {
			var some targets
			var numbers, versions []int64
			var states []int16
			for i, t := range ts {
				if (t.topic.Retain > 0) == retained {
					some = append(some, t)
					numbers = append(numbers, int64(i+1))
					states = append(states, int16(removals[t.index].State))
					versions = append(versions, removals[t.index].Version)
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
	if err != nil {
		return nil, err
	}
	return answers, e.tellEnded(ctx, exec, engine.EndedByRemoval(removals, answers))
}

func keyOf(keys []engine.Key) func(int) engine.Key {
	return func(i int) engine.Key { return keys[i] }
}

// Replay implements engine.Engine.
func (e *Engine) Replay(ctx context.Context, keys []engine.Key) ([]engine.Answer, error) {
	answers, err := e.change(ctx, e.direct(), "replaying tasks", true, len(keys), keyOf(keys), func(batch *pgx.Batch, ts targets, read func(pgx.Rows) error) {
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
	effect func(batch *pgx.Batch, ts targets, read func(pgx.Rows) error),
) ([]engine.Answer, error) {
	return inRounds(ctx, e, exec, doing, n, key, nil, func(answers []engine.Answer, batch *pgx.Batch, ts targets, repeated bool) {
		read := readAnswers(func(n int64, answer engine.Answer) { answers[ts[n-1].index] = answer })
		if topics, ids := ts.columns(); lock || repeated {
			batch.Queue(e.sql.Lock, topics, ids).Query(read)
		}
		effect(batch, ts, read)
	})
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
