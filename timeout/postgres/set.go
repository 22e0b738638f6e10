package postgres

import (
	"context"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/heartwheel-go/heartwheel/timeout/engine"
	"github.com/heartwheel-go/heartwheel/timeout/internal/origin"
)

// Set implements engine.Engine.
func (e *Engine) Set(ctx context.Context, tasks []engine.Task) ([]engine.Answer, error) {
	return e.set(ctx, e.direct(), tasks)
}

func (e *Engine) set(ctx context.Context, exec executor, tasks []engine.Task) ([]engine.Answer, error) {
	answers := make([]engine.Answer, len(tasks))
	size := func(i int) int { return len(tasks[i].Payload) }
	err := chunks(len(tasks), size, func(from, to int) error {
		if err := e.setChunk(ctx, exec, tasks[from:to], answers[from:to]); err != nil {
			return err
		}
		return e.tellEnded(ctx, exec, engine.EndedBySet(tasks[from:to], answers[from:to]))
	})
	if err != nil {
		return nil, err
	}
	return answers, nil
}

// setChunk sets tasks in one transaction. It tries a second time for tasks of a missing topic: a topic
// dropped since its lookup may have been made anew.
func (e *Engine) setChunk(ctx context.Context, exec executor, tasks []engine.Task, answers []engine.Answer) error {
	left := make([]int, len(tasks))
	for i := range left {
		left[i] = i
	}
	for range 2 {
		var err error
		if left, err = e.setSome(ctx, exec, tasks, answers, left); err != nil {
			return err
		}
		if len(left) == 0 {
			return nil
		}
		for _, i := range left {
			e.topics.forget(tasks[i].Topic)
		}
	}
	for _, i := range left {
		answers[i] = engine.Answer{Err: notFound(tasks[i].Topic)}
	}
	return nil
}

// setSome sets the tasks of some indices. It returns the indices of tasks of missing topics.
func (e *Engine) setSome(ctx context.Context, exec executor, tasks []engine.Task, answers []engine.Answer, indices []int) (left []int, err error) {
	rounds, err := e.locate(ctx, exec, len(indices), func(i int) engine.Key { return tasks[indices[i]].Key() })
	if err != nil {
		return nil, err
	}
	done := make([]bool, len(tasks))
	if len(rounds) > 0 {
		err = exec.send(ctx, "setting tasks", func(batch *pgx.Batch) {
			clear(done)
			for _, round := range rounds {
				e.queueSet(exec, batch, tasks, indices, round, answers, done)
			}
			if exec.foreign {
				e.queueNotice(batch, soonSet(tasks))
			}
		})
	}
	if err != nil {
		return nil, err
	}
	if !exec.foreign {
		e.notifier.tell(soonSet(tasks)...)
	}
	for _, i := range indices {
		if !done[i] {
			left = append(left, i)
		}
	}
	return left, nil
}

// queueSet adds a statement to set tasks. With IfAbsent it may leave a task as it is, but locks it.
// A second statement reads these tasks.
func (e *Engine) queueSet(exec executor, batch *pgx.Batch, tasks []engine.Task, indices []int, ts targets, answers []engine.Answer, done []bool) {
	c := newColumns(tasks, indices, ts)
	statement := e.sql.Set
	if !exec.foreign && e.inserts.likely(len(ts)) {
		statement = e.sql.Insert
	}
	batch.Queue(statement, c.topics, c.ids, c.slots, c.due, c.after, c.absent, c.callbacks, c.payloads).Query(func(rows pgx.Rows) error {
		return readSet(rows, ts, func(t target, answer engine.Answer) {
			answers[indices[t.index]], done[indices[t.index]] = answer, true
		})
	})
	var careful targets
	for _, t := range ts {
		if tasks[indices[t.index]].IfAbsent {
			careful = append(careful, t)
		}
	}
	if len(careful) == 0 {
		return
	}
	topics, ids := careful.columns()
	batch.Queue(e.sql.Lock, topics, ids).Query(readAnswers(func(n int64, answer engine.Answer) {
		if i := indices[careful[n-1].index]; !done[i] {
			answers[i], done[i] = answer, true
		}
	}))
}

// columns are tasks as the arguments of a statement.
type columns struct {
	topics     []int32
	ids        []string
	slots      []int16
	due, after []int64 // due is -1 for none
	absent     []bool
	callbacks  []*string
	payloads   [][]byte
}

func newColumns(tasks []engine.Task, indices []int, ts targets) columns {
	n := len(ts)
	c := columns{slots: make([]int16, n), due: make([]int64, n), after: make([]int64, n), absent: make([]bool, n)}
	c.topics, c.ids = ts.columns()
	for i, t := range ts {
		task := &tasks[indices[t.index]]
		c.slots[i] = int16(engine.Slot(task.ID, engine.MaxSlots)) //nolint:gosec // it is at most 1023
		c.due[i], c.after[i] = when(task.Due, task.After)
		c.absent[i] = task.IfAbsent
		// A column of payloads or callbacks stays nil if no task has one.
		if task.Payload != nil {
			if c.payloads == nil {
				c.payloads = make([][]byte, n)
			}
			c.payloads[i] = task.Payload
		}
		if from := origin.Of(task); from != "" {
			if c.callbacks == nil {
				c.callbacks = make([]*string, n)
			}
			kept := from // from itself would be allocated for each task
			c.callbacks[i] = &kept
		}
	}
	return c
}

// when returns an action time for a statement: at is in milliseconds since the epoch. If it is -1,
// the time is from milliseconds after the server's now. Both are rounded up.
func when(due time.Time, after time.Duration) (at, from int64) {
	if due.IsZero() {
		return -1, engine.CeilMillis(after)
	}
	return engine.Millis(due), 0
}

// readSet reads the rows of a set. They are in the order of the targets; some targets have no row.
func readSet(rows pgx.Rows, ts targets, found func(target, engine.Answer)) error {
	var topic int32
	var id string
	var was int16
	var version, due int64
	next := 0
	_, err := pgx.ForEachRow(rows, []any{&topic, &id, &was, &version, &due}, func() error {
		for next < len(ts) && (ts[next].topic.no != topic || ts[next].id != id) {
			next++
		}
		if next < len(ts) {
			found(ts[next], engine.Answer{Was: engine.State(was), Version: version, Due: time.UnixMilli(due)})
			next++
		}
		return nil
	})
	return err
}
