package sqlite

import (
	"context"
	"slices"
	"strings"
	"time"

	"github.com/heartwheel-go/heartwheel/timeout/engine"
	"github.com/heartwheel-go/heartwheel/timeout/internal/origin"
)

// Set implements engine.Engine.
func (e *Engine) Set(ctx context.Context, tasks []engine.Task) ([]engine.Answer, error) {
	return inChunks(ctx, e, e.add, "setting tasks", tasks, set)
}

// verb executes at most chunk things in one transaction.
type verb[T, R any] func(ctx context.Context, s *session, things []T) ([]R, error)

// inChunks executes a verb in as many transactions as it needs. With an error it returns the answers of those before.
func inChunks[T, R any](ctx context.Context, e *Engine, write writing, what string, things []T, do verb[T, R]) ([]R, error) {
	return call(ctx, e, what, func() ([]R, error) {
		answers := make([]R, 0, len(things))
		for part := range slices.Chunk(things, chunk) {
			some, err := within(ctx, write, func(ctx context.Context, s *session) ([]R, error) { return do(ctx, s, part) })
			if err != nil {
				return answers, err
			}
			answers = append(answers, some...)
			e.changed.Add(1)
		}
		return answers, nil
	})
}

// byTopic calls do once for each topic of the things, with their indices, and with their ids in the same order. The
// topic is nil if it does not exist.
func byTopic[T any](ctx context.Context, s *session, things []T, keyOf func(T) engine.Key, do func(t *topic, indices []int, ids []string) error) error {
	indices, ids := make(map[string][]int, 1), make(map[string][]string, 1)
	var names []string
	for i, thing := range things {
		key := keyOf(thing)
		if indices[key.Topic] == nil {
			names = append(names, key.Topic)
		}
		indices[key.Topic], ids[key.Topic] = append(indices[key.Topic], i), append(ids[key.Topic], key.ID)
	}
	for _, name := range names {
		t, err := topicOf(ctx, s, name)
		if err != nil {
			return err
		}
		if err := do(t, indices[name], ids[name]); err != nil {
			return err
		}
	}
	return nil
}

func set(ctx context.Context, s *session, tasks []engine.Task) ([]engine.Answer, error) {
	answers := make([]engine.Answer, len(tasks))
	version, err := numbers(ctx, s, len(tasks))
	if err != nil {
		return nil, err
	}
	at := now()
	err = byTopic(ctx, s, tasks, engine.Task.Key, func(t *topic, indices []int, ids []string) error {
		if t == nil {
			for _, i := range indices {
				answers[i].Err = noTopic(tasks[i].Topic)
			}
			return nil
		}
		there, err := find(ctx, s, t.no, ids)
		if err != nil {
			return err
		}
		return setIn(ctx, s, t, tasks, indices, there, version, at, answers)
	})
	if err == nil {
		err = tellEnded(ctx, s, engine.EndedBySet(tasks, answers))
	}
	return answers, err
}

// setIn sets the tasks of one topic. The version of a task is version plus its index.
func setIn(ctx context.Context, s *session, t *topic, tasks []engine.Task, indices []int, there map[string]*found, version, at int64, answers []engine.Answer) error {
	last := make(map[string]int, len(indices)) // by id: index of the stored task
	var stale []string                         // ids with a log
	for _, i := range indices {
		task := &tasks[i]
		before := there[task.ID]
		answers[i] = before.answer()
		if before != nil && task.IfAbsent && before.state != engine.Done && before.state != engine.Removed {
			continue
		}
		after := &found{state: engine.Pending, due: task.DueAt(at), version: version + int64(i)}
		kept := task.KeepDue && before != nil
		if kept && (before.state == engine.Pending || before.state == engine.Running) {
			after.due = before.due
		}
		if after.at = after.due; kept && before.state == engine.Pending {
			after.at = before.at
		}
		answers[i].Version, answers[i].Due = after.version, time.UnixMilli(after.due)
		if before != nil && before.logged {
			stale = append(stale, task.ID)
		}
		there[task.ID] = after
		last[task.ID] = i
	}
	values := make([]any, 0, setColumns*len(last))
	for _, i := range indices {
		if where, ok := last[tasks[i].ID]; ok && where == i {
			values = appendValues(values, t, &tasks[i], there[tasks[i].ID], at)
		}
	}
	if err := forget(ctx, s, t.no, stale); err != nil {
		return err
	}
	return insert(ctx, s, values)
}

// setColumns is the number of values of a task.
const setColumns = 10

func appendValues(values []any, t *topic, task *engine.Task, set *found, at int64) []any {
	var callback, payload any
	if from := origin.Of(task); from != "" {
		callback = from
	}
	if len(task.Payload) > 0 {
		payload = task.Payload
	}
	return append(values, t.no, task.ID, int64(engine.Hash(task.ID)), int64(engine.Pending), set.at, set.due, set.version, callback, payload, at)
}

// insertSizes are the numbers of tasks in one insert statement.
var insertSizes = []int{64, 8, 1}

var insertQueries = func() map[int]string {
	queries := make(map[int]string)
	for _, size := range insertSizes {
		values := "(" + strings.Repeat("?, ", setColumns-1) + "?)"
		queries[size] = "INSERT INTO hw_tasks (topic, id, hash, state, at, due, version, callback, payload, created) VALUES " +
			strings.Repeat(values+", ", size-1) + values +
			` ON CONFLICT (topic, id) DO UPDATE SET state = excluded.state, at = excluded.at, due = excluded.due,
			version = excluded.version, attempts = 0, lease = 0, span = 0, node = '', error = '',
			callback = excluded.callback, payload = excluded.payload, created = excluded.created, calls = 0, failures = 0`
	}
	return queries
}()

// insert writes tasks, with setColumns values each. It overwrites existing tasks.
func insert(ctx context.Context, s *session, values []any) error {
	for _, size := range insertSizes {
		for n := size * setColumns; len(values) >= n; values = values[n:] {
			if _, err := s.ExecContext(ctx, insertQueries[size], values[:n]...); err != nil {
				return err
			}
		}
	}
	return nil
}
