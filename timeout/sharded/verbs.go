package sharded

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/heartwheel-go/heartwheel/timeout"
)

// scatter has each shard do its part of a batch, and returns the answers in the order of the
// batch, with an error for each that got none. The topic of the marks has no tasks, for anybody. What to
// do has the form of timeout.Engine.Move. With an error that wraps ErrPartial there
// are the answers besides that are known.
func scatter[T, A any](ctx context.Context, e *core, batch []T, key func(T) timeout.Key, known func(A) bool, do func(timeout.Engine, context.Context, []T) ([]A, error)) ([]A, []error) {
	answers, failed := make([]A, len(batch)), make([]error, len(batch))
	parts := make([][]int, len(e.shards))
	for i, one := range batch {
		if key(one).Topic == Reserved {
			continue
		}
		place := Place(key(one), len(e.shards))
		parts[place] = append(parts[place], i)
	}
	e.together(func(place int) bool { return len(parts[place]) > 0 }, func(s *shard) error {
		left := parts[s.place]
		for part := range slices.Chunk(left, chunk) {
			things := make([]T, len(part))
			for n, i := range part {
				things[n] = batch[i]
			}
			var some []A
			err := e.call(ctx, s, func(ctx context.Context, engine timeout.Engine) (err error) {
				some, err = do(engine, ctx, things)
				return err
			})
			partial := errors.Is(err, timeout.ErrPartial) && len(some) == len(part)
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

// tell returns the answers of a verb. Where no shard has answered that is an error of the call,
// and otherwise of those that got no answer.
func tell(answers []timeout.Answer, failed []error) ([]timeout.Answer, error) {
	if err := allFailed(failed); err != nil {
		return nil, err
	}
	for i, err := range failed {
		if err != nil {
			answers[i] = timeout.Answer{Err: err}
		}
	}
	return answers, nil
}

// tellPartly is tell for what has no place for an error.
func tellPartly[A any](answers []A, failed []error) ([]A, error) {
	if err := allFailed(failed); err != nil {
		return nil, err
	}
	for _, err := range failed {
		if err != nil {
			return answers, fmt.Errorf("%w: %w", timeout.ErrPartial, err)
		}
	}
	return answers, nil
}

// allFailed returns an error where there is nothing else.
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

func ofKey(key timeout.Key) timeout.Key       { return key }
func ofRemoval(r timeout.Removal) timeout.Key { return r.Key }
func ofMove(move timeout.Move) timeout.Key    { return move.Key }
func ofTask(task timeout.Task) timeout.Key    { return task.Key() }
func ofToken(token timeout.Token) timeout.Key { return token.Key }

func isThere(task timeout.Task) bool { return task.State != timeout.None }
func isHeld(held bool) bool          { return held }

// Set is timeout.Engine's.
func (e *core) Set(ctx context.Context, tasks []timeout.Task) ([]timeout.Answer, error) {
	if err := e.enter(ctx); err != nil {
		return nil, err
	}
	answers, err := tell(scatter(ctx, e, tasks, ofTask, nil, func(engine timeout.Engine, ctx context.Context, some []timeout.Task) ([]timeout.Answer, error) {
		return e.set(ctx, engine, some)
	}))
	for i := range answers {
		if tasks[i].Topic == Reserved {
			answers[i].Err = noTopic(Reserved)
		}
	}
	return answers, err
}

// set sets tasks of one shard, and once more those whose topic it has missed.
func (e *core) set(ctx context.Context, engine timeout.Engine, tasks []timeout.Task) ([]timeout.Answer, error) {
	answers, err := engine.Set(ctx, tasks)
	if err != nil {
		return nil, err
	}
	var missing []int
	var names []string
	for i, answer := range answers {
		if errors.Is(answer.Err, timeout.ErrNotFound) {
			missing = append(missing, i)
			if name := tasks[i].Topic; !slices.Contains(names, name) {
				names = append(names, name)
			}
		}
	}
	if len(missing) == 0 || !e.heal(ctx, engine, names...) {
		return answers, nil
	}
	again := make([]timeout.Task, len(missing))
	for n, i := range missing {
		again[n] = tasks[i]
	}
	repeated, err := engine.Set(ctx, again)
	for n, i := range missing {
		if err != nil {
			answers[i] = timeout.Answer{Err: err}
		} else {
			answers[i] = repeated[n]
		}
	}
	return answers, nil
}

// Move is timeout.Engine's.
func (e *core) Move(ctx context.Context, moves []timeout.Move) ([]timeout.Answer, error) {
	if err := e.enter(ctx); err != nil {
		return nil, err
	}
	return tell(scatter(ctx, e, moves, ofMove, nil, timeout.Engine.Move))
}

// Remove is timeout.Engine's.
func (e *core) Remove(ctx context.Context, removals []timeout.Removal) ([]timeout.Answer, error) {
	if err := e.enter(ctx); err != nil {
		return nil, err
	}
	return tell(scatter(ctx, e, removals, ofRemoval, nil, timeout.Engine.Remove))
}

// Replay is timeout.Engine's.
func (e *core) Replay(ctx context.Context, keys []timeout.Key) ([]timeout.Answer, error) {
	if err := e.enter(ctx); err != nil {
		return nil, err
	}
	return tell(scatter(ctx, e, keys, ofKey, nil, timeout.Engine.Replay))
}

// Get is timeout.Engine's. Where a shard does not answer and others do, the error wraps ErrPartial.
func (e *core) Get(ctx context.Context, keys []timeout.Key) ([]timeout.Task, error) {
	if err := e.enter(ctx); err != nil {
		return nil, err
	}
	tasks, failed := scatter(ctx, e, keys, ofKey, isThere, timeout.Engine.Get)
	for i, key := range keys {
		if failed[i] != nil || key.Topic == Reserved {
			tasks[i] = timeout.Task{Topic: key.Topic, ID: key.ID}
		}
	}
	return tellPartly(tasks, failed)
}

// Extend is timeout.Engine's. Where a shard does not answer, the error wraps ErrPartial.
func (e *core) Extend(ctx context.Context, tokens []timeout.Token, lease time.Duration) ([]bool, error) {
	if err := e.enter(ctx); err != nil {
		return nil, err
	}
	return tellPartly(scatter(ctx, e, tokens, ofToken, isHeld, func(engine timeout.Engine, ctx context.Context, some []timeout.Token) ([]bool, error) {
		return engine.Extend(ctx, some, lease)
	}))
}

// Executions is timeout.Log's, where the shards are.
func (e *core) Executions(ctx context.Context, key timeout.Key, limit int) (log []timeout.Execution, err error) {
	if err := e.enter(ctx); err != nil {
		return nil, err
	}
	if key.Topic == Reserved {
		return nil, nil
	}
	err = e.call(ctx, e.shards[Place(key, len(e.shards))], func(ctx context.Context, engine timeout.Engine) (err error) {
		logging, ok := engine.(timeout.Log)
		if !ok {
			return timeout.ErrUnsupported
		}
		log, err = logging.Executions(ctx, key, limit)
		return err
	})
	return log, err
}
