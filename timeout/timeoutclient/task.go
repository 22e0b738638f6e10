package timeoutclient

import (
	"context"
	"fmt"
	"iter"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"github.com/heartwheel-go/heartwheel/timeout/engine"
	"github.com/heartwheel-go/heartwheel/timeout/timeoutclient/wire"
)

// Answer is the result of a call for one task.
type Answer struct {
	engine.Answer

	// Changed says whether the call has had an effect.
	Changed bool
}

func answerOf(a wire.Answer) Answer {
	answer := Answer{engine.Answer{Was: a.Was, Version: a.Version, Due: a.Due.Time}, a.Changed}
	if a.Error != nil {
		answer.Err = problem(*a.Error)
	}
	return answer
}

// one makes a call for one task.
func (c *Client) one(ctx context.Context, method string, key engine.Key, rest string, body any, header ...string) (Answer, error) {
	const unsaid = engine.Removed + 1
	found, at := wire.Answer{Was: unsaid}, taskAt(key, rest)
	err := c.call(ctx, method, at, body, &found, header...)
	if err == nil && found.Was == unsaid {
		err = fmt.Errorf("%s %s: the answer makes no sense: it has no state", method, at.path)
	}
	if err != nil {
		return Answer{}, err
	}
	return answerOf(found), nil
}

// batch makes a call with a list of that name, and returns an answer for each element. It checks them: JSON would have
// another id in place of one that is no UTF-8.
func batch[Answers any, T interface{ Check() error }, Said any](ctx context.Context, c *Client, path, name string, list []T, said func(T) Said) (found Answers, err error) {
	for i, one := range list {
		if err := one.Check(); err != nil {
			return found, fmt.Errorf("%s[%d]: %w", name, i, err)
		}
	}
	return ask[Answers](ctx, c, http.MethodPost, place{path: path}, map[string][]Said{name: wire.Each(list, said)})
}

// itself is for elements that are in JSON as they are.
func itself[T any](one T) T { return one }

// many changes tasks.
func many[T interface{ Check() error }, Said any](ctx context.Context, c *Client, path, name string, list []T, said func(T) Said) ([]Answer, error) {
	found, err := batch[wire.Answers](ctx, c, path, name, list, said)
	if err != nil {
		return nil, err
	}
	if len(found.Answers) != len(list) {
		return nil, fmt.Errorf("POST %s: %d answers for %d tasks", path, len(found.Answers), len(list))
	}
	return wire.Each(found.Answers, answerOf), nil
}

// first returns the only answer of a call for many tasks.
func first(answers []Answer, err error) (Answer, error) {
	if err != nil {
		return Answer{}, err
	}
	return answers[0], answers[0].Err
}

// Set makes a task wait for its action time, whatever its state was. With IfAbsent a task that waits,
// runs or is dead stays as it is, and Changed is false. The payload arrives byte for byte.
func (c *Client) Set(ctx context.Context, task engine.Task) (Answer, error) {
	if pathless(task.ID) {
		return first(c.SetAll(ctx, []engine.Task{task}))
	}
	if err := task.Check(); err != nil {
		return Answer{}, err
	}
	var header []string
	if task.IfAbsent {
		header = []string{"If-None-Match", "*"}
	}
	return c.one(ctx, http.MethodPut, task.Key(), "", wire.SettingOf(task), header...)
}

// SetAll is Set for many tasks: up to 1000 of them and 8 MiB, unless the server has other limits. The
// answers are in the order of the tasks.
func (c *Client) SetAll(ctx context.Context, tasks []engine.Task) ([]Answer, error) {
	return many(ctx, c, "/v1/tasks/set", "tasks", tasks, func(task engine.Task) wire.KeyedSetting {
		return wire.KeyedSetting{Key: task.Key(), Setting: wire.SettingOf(task), IfAbsent: task.IfAbsent}
	})
}

// Move changes the action time of a waiting task. It changes no other task.
// A zero due is now.
func (c *Client) Move(ctx context.Context, key engine.Key, due time.Time) (Answer, error) {
	return c.move(ctx, engine.Move{Key: key, Due: due})
}

// MoveAfter is Move with a time from now on, by the engine's clock.
func (c *Client) MoveAfter(ctx context.Context, key engine.Key, after time.Duration) (Answer, error) {
	return c.move(ctx, engine.Move{Key: key, After: after})
}

func (c *Client) move(ctx context.Context, move engine.Move) (Answer, error) {
	if pathless(move.ID) {
		return first(c.MoveAll(ctx, []engine.Move{move}))
	}
	return c.one(ctx, http.MethodPost, move.Key, "/move", whenOf(move))
}

// MoveAll is Move for many tasks. A move with neither Due nor After is to now. One with a Version is
// engine.ErrUnsupported.
func (c *Client) MoveAll(ctx context.Context, moves []engine.Move) ([]Answer, error) {
	for i, move := range moves {
		if move.Version != 0 { // the server would move any
			return nil, fmt.Errorf("moves[%d]: %w: version %d of a move of %v: the server knows none", i, engine.ErrUnsupported, move.Version, move.Key)
		}
	}
	return many(ctx, c, "/v1/tasks/move", "moves", moves, func(move engine.Move) wire.KeyedMove {
		return wire.KeyedMove{Key: move.Key, When: whenOf(move)}
	})
}

func whenOf(move engine.Move) wire.When {
	when := wire.WhenOf(move.Due, move.After)
	if when.Due.IsZero() && when.After == nil {
		when.After = new(wire.Duration)
	}
	return when
}

// Remove ends a task that waits, runs or is dead.
func (c *Client) Remove(ctx context.Context, key engine.Key) (Answer, error) {
	if pathless(key.ID) {
		return first(c.RemoveAll(ctx, []engine.Removal{{Key: key}}))
	}
	return c.one(ctx, http.MethodDelete, key, "", nil)
}

// RemoveAll is Remove for many tasks, each perhaps only in a certain state and version.
func (c *Client) RemoveAll(ctx context.Context, removals []engine.Removal) ([]Answer, error) {
	return many(ctx, c, "/v1/tasks/remove", "keys", removals, itself)
}

// Replay makes dead tasks wait again: due at once, with all their attempts. It changes no other task.
func (c *Client) Replay(ctx context.Context, keys []engine.Key) ([]Answer, error) {
	return many(ctx, c, "/v1/tasks/replay", "keys", keys, itself)
}

// Get returns a task, or engine.ErrNotFound. A JSON payload may have other white space than it was set
// with. Below scope write its callback is engine.Callback.Masked.
func (c *Client) Get(ctx context.Context, key engine.Key) (engine.Task, error) {
	if pathless(key.ID) {
		tasks, err := c.GetAll(ctx, []engine.Key{key})
		if err == nil && tasks[0].State == engine.None {
			err = fmt.Errorf("%w: task %v", engine.ErrNotFound, key)
		}
		if err != nil {
			return engine.Task{}, err
		}
		return tasks[0], nil
	}
	at := taskAt(key, "")
	task, err := ask[wire.Task](ctx, c, http.MethodGet, at, nil)
	if err == nil && task.Key != key {
		return engine.Task{}, fmt.Errorf("GET %s: the answer makes no sense: it is about %.100q", at.path, task.Key)
	}
	return task.Read(), err
}

// GetAll returns tasks with their payloads. The State of a missing task is None.
func (c *Client) GetAll(ctx context.Context, keys []engine.Key) ([]engine.Task, error) {
	found, err := batch[wire.Tasks](ctx, c, "/v1/tasks/get", "keys", keys, itself)
	if err != nil {
		return nil, err
	}
	if len(found.Tasks) != len(keys) {
		return nil, fmt.Errorf("POST /v1/tasks/get: %d tasks for %d keys", len(found.Tasks), len(keys))
	}
	return wire.Each(found.Tasks, wire.Task.Read), nil
}

// List returns a page of the tasks of one topic and state. State None means Pending. The tasks have PayloadBytes and
// no payloads, as if query.OmitPayload were set.
func (c *Client) List(ctx context.Context, query engine.Query) (engine.Page, error) {
	params := url.Values{}
	if query.State != engine.None {
		params.Set("state", query.State.String())
	}
	if query.Limit != 0 {
		params.Set("limit", strconv.Itoa(query.Limit))
	}
	if query.Cursor != "" {
		params.Set("cursor", query.Cursor)
	}
	for name, value := range query.Metadata {
		params.Add("metadata[]", name+"="+value)
	}
	found, err := ask[wire.Tasks](ctx, c, http.MethodGet, topicAt(query.Topic, "/tasks?"+params.Encode()), nil)
	return engine.Page{Tasks: wire.Each(found.Tasks, wire.Task.Read), Next: found.Next}, err
}

// All returns the tasks of List from the cursor on, over all pages. An error is the last of the pairs.
func (c *Client) All(ctx context.Context, query engine.Query) iter.Seq2[engine.Task, error] {
	return func(yield func(engine.Task, error) bool) {
		for {
			page, err := c.List(ctx, query)
			if err != nil {
				yield(engine.Task{}, err)
				return
			}
			for _, task := range page.Tasks {
				if !yield(task, nil) {
					return
				}
			}
			if query.Cursor = page.Next; query.Cursor == "" {
				return
			}
		}
	}
}

// Executions returns the ended attempts of a task, the latest first, but not those that were handed back. A limit of zero means 100.
func (c *Client) Executions(ctx context.Context, key engine.Key, limit int) ([]engine.Execution, error) {
	if pathless(key.ID) {
		return nil, fmt.Errorf("%w: id %q, has no list of executions: it fits into no path", engine.ErrArgument, key.ID)
	}
	at := taskAt(key, "/executions")
	if limit != 0 {
		at.path += "?limit=" + strconv.Itoa(limit)
	}
	found, err := ask[wire.Executions](ctx, c, http.MethodGet, at, nil)
	return wire.Each(found.Executions, wire.Execution.Read), err
}
