package sharded

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/heartwheel-go/heartwheel/timeout/engine"
)

// scatter gives each shard its part of a batch. It returns the answers in the order of the batch,
// and an error for each missing answer. Tasks of the topic engine.Reserved get a zero answer. do has the
// form of engine.Engine.Move. If its error wraps ErrPartial, scatter keeps the known answers.
func scatter[T, A any](ctx context.Context, e *core, batch []T, key func(T) engine.Key, known func(A) bool, do func(engine.Engine, context.Context, []T) ([]A, error)) ([]A, []error) {
	answers, failed := make([]A, len(batch)), make([]error, len(batch))
	parts := make([][]int, len(e.shards))
	for i, one := range batch {
		if key(one).Topic == engine.Reserved {
			continue
		}
		index := ShardOf(key(one), len(e.shards))
		parts[index] = append(parts[index], i)
	}
	e.together(func(index int) bool { return len(parts[index]) > 0 }, func(s *shard) error {
		left := parts[s.index]
		for part := range slices.Chunk(left, chunk) {
			things := make([]T, len(part))
			for n, i := range part {
				things[n] = batch[i]
			}
			var some []A
			err := e.call(ctx, s, func(ctx context.Context, eng engine.Engine) (err error) {
				some, err = do(eng, ctx, things)
				return err
			})
			partial := errors.Is(err, engine.ErrPartial) && len(some) == len(part)
			if err != nil && !partial {
				for _, i := range left {
					failed[i] = err
				}
				return nil
			}
			left = left[len(part):]
			for n, i := range part {
				answers[i] = some[n]
				if partial && !known(some[n]) {
					failed[i] = err
				}
			}
		}
		return nil
	})
	return answers, failed
}

// tell returns the answers of a verb. If no shard has answered, the call has the error. Otherwise
// each task without an answer has its own.
func tell(answers []engine.Answer, failed []error) ([]engine.Answer, error) {
	if err := allFailed(failed); err != nil {
		return nil, err
	}
	for i, err := range failed {
		if err != nil {
			answers[i] = engine.Answer{Err: err}
		}
	}
	return answers, nil
}

// tellPartly is tell for answers without an error of their own: its error wraps ErrPartial.
func tellPartly[A any](answers []A, failed []error) ([]A, error) {
	if err := allFailed(failed); err != nil {
		return nil, err
	}
	for _, err := range failed {
		if err != nil {
			return answers, fmt.Errorf("%w: %w", engine.ErrPartial, err)
		}
	}
	return answers, nil
}

// allFailed returns the errors if all calls failed, and nil otherwise. It joins at most ten errors with different texts.
func allFailed(failed []error) error {
	if len(failed) == 0 || slices.Contains(failed, nil) {
		return nil
	}
	different := failed[:1:1]
	for _, err := range failed[1:] {
		if last := different[len(different)-1]; err.Error() != last.Error() && len(different) < 10 {
			different = append(different, err)
		}
	}
	return errors.Join(different...)
}

func ofKey(key engine.Key) engine.Key       { return key }
func ofRemoval(r engine.Removal) engine.Key { return r.Key }
func ofMove(move engine.Move) engine.Key    { return move.Key }
func ofTask(task engine.Task) engine.Key    { return task.Key() }
func ofToken(token engine.Token) engine.Key { return token.Key }

func isThere(task engine.Task) bool { return task.State != engine.None }
func isHeld(held bool) bool         { return held }

// Set implements engine.Engine.
func (e *core) Set(ctx context.Context, tasks []engine.Task) ([]engine.Answer, error) {
	answers, err := tell(scatter(ctx, e, tasks, ofTask, nil, func(eng engine.Engine, ctx context.Context, some []engine.Task) ([]engine.Answer, error) {
		return e.set(ctx, eng, some)
	}))
	for i := range answers {
		if tasks[i].Topic == engine.Reserved {
			answers[i].Err = noTopic(engine.Reserved)
		}
	}
	return answers, err
}

// set sets tasks of one shard. If the shard has missed a topic, set heals the topic and sets its
// tasks once more.
func (e *core) set(ctx context.Context, eng engine.Engine, tasks []engine.Task) ([]engine.Answer, error) {
	answers, err := eng.Set(ctx, tasks)
	if err != nil {
		return nil, err
	}
	var missing []int
	var again []engine.Task
	for i, answer := range answers {
		if isNotFound(answer.Err) {
			missing, again = append(missing, i), append(again, tasks[i])
		}
	}
	if len(missing) == 0 || !e.heal(ctx, e.shards[ShardOf(tasks[0].Key(), len(e.shards))], eng) {
		return answers, nil
	}
	repeated, err := eng.Set(ctx, again)
	for n, i := range missing {
		if err != nil {
			answers[i] = engine.Answer{Err: err}
		} else {
			answers[i] = repeated[n]
		}
	}
	return answers, nil
}

// Move implements engine.Engine.
func (e *core) Move(ctx context.Context, moves []engine.Move) ([]engine.Answer, error) {
	return tell(scatter(ctx, e, moves, ofMove, nil, engine.Engine.Move))
}

// Remove implements engine.Engine.
func (e *core) Remove(ctx context.Context, removals []engine.Removal) ([]engine.Answer, error) {
	return tell(scatter(ctx, e, removals, ofRemoval, nil, engine.Engine.Remove))
}

// Replay implements engine.Engine.
func (e *core) Replay(ctx context.Context, keys []engine.Key) ([]engine.Answer, error) {
	return tell(scatter(ctx, e, keys, ofKey, nil, engine.Engine.Replay))
}

// Get implements engine.Engine. If only some shards answer, the error wraps ErrPartial.
func (e *core) Get(ctx context.Context, keys []engine.Key) ([]engine.Task, error) {
	tasks, failed := scatter(ctx, e, keys, ofKey, isThere, engine.Engine.Get)
	for i, key := range keys {
		if failed[i] != nil || key.Topic == engine.Reserved {
			tasks[i] = engine.Task{Topic: key.Topic, ID: key.ID}
		}
	}
	return tellPartly(tasks, failed)
}

// Extend implements engine.Engine. If only some shards answer, the error wraps ErrPartial.
func (e *core) Extend(ctx context.Context, tokens []engine.Token, lease time.Duration) ([]bool, error) {
	return tellPartly(scatter(ctx, e, tokens, ofToken, isHeld, func(eng engine.Engine, ctx context.Context, some []engine.Token) ([]bool, error) {
		return eng.Extend(ctx, some, lease)
	}))
}

// Executions implements engine.Log. If the shard is no engine.Log, the error wraps ErrUnsupported.
func (e *core) Executions(ctx context.Context, key engine.Key, limit int) (log []engine.Execution, err error) {
	if key.Topic == engine.Reserved {
		return nil, nil
	}
	err = e.call(ctx, e.shards[ShardOf(key, len(e.shards))], func(ctx context.Context, eng engine.Engine) (err error) {
		logging, ok := eng.(engine.Log)
		if !ok {
			return engine.ErrUnsupported
		}
		log, err = logging.Executions(ctx, key, limit)
		return err
	})
	return log, err
}
