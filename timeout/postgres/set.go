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

// set tries a second time for tasks of a missing topic: a topic dropped since its lookup may have been made anew.
func (e *Engine) set(ctx context.Context, exec executor, tasks []engine.Task) ([]engine.Answer, error) {
	answers, err := twice(tasks, func(some []engine.Task, again bool) ([]engine.Answer, error) {
		for i := 0; again && i < len(some); i++ {
			e.topics.forget(some[i].Topic)
		}
		key, size := func(i int) engine.Key { return some[i].Key() }, func(i int) int { return len(some[i].Payload) }
		return inRounds(ctx, e, exec, "setting tasks", len(some), key, size, func(answers []engine.Answer, batch *pgx.Batch, ts targets, _ bool) {
			e.queueSet(exec, batch, some, ts, answers)
		})
	})
	for i := range answers {
		if answers[i].Version == 0 {
			answers[i].Err = notFound(tasks[i].Topic)
		}
	}
	if !exec.foreign {
		e.notifier.tell(soonSet(tasks)...)
	}
	if err != nil {
		return nil, err
	}
	return answers, e.tellEnded(ctx, exec, engine.EndedBySet(tasks, answers))
}

// queueSet adds a statement to set tasks. With IfAbsent it may leave a task as it is, but locks it.
// A second statement reads these tasks.
func (e *Engine) queueSet(exec executor, batch *pgx.Batch, tasks []engine.Task, ts targets, answers []engine.Answer) {
	statement := e.sql.Set
	if !exec.foreign && e.inserts.likely(len(ts)) {
		statement = e.sql.Insert
	}
	batch.Queue(statement, columns(tasks, ts)...).Query(func(rows pgx.Rows) error {
		return readSet(rows, ts, answers)
	})
	var careful targets
	var told []engine.Task
	for _, t := range ts {
		if tasks[t.index].IfAbsent {
			careful = append(careful, t)
		}
		if exec.foreign {
			told = append(told, tasks[t.index])
		}
	}
	e.queueNotice(batch, soonSet(told))
	if len(careful) == 0 {
		return
	}
	topics, ids := careful.columns()
	batch.Queue(e.sql.Lock, topics, ids).Query(readAnswers(func(n int64, answer engine.Answer) {
		if i := careful[n-1].index; answers[i].Version == 0 {
			answers[i] = answer
		}
	}))
}

// columns returns tasks as the arguments of a statement: see given.sql.
func columns(tasks []engine.Task, ts targets) []any {
	n := len(ts)
	slots, due, after, over := make([]int16, n), make([]int64, n), make([]int64, n), make([]int16, n)
	var callbacks []*string // nil if no task has one
	var payloads [][]byte   // nil if no task has one
	for i, t := range ts {
		task := &tasks[t.index]
		slots[i] = int16(engine.Slot(task.ID, engine.MaxSlots)) //nolint:gosec // it is at most 1023
		due[i], after[i] = when(task.Due, task.After)
		switch { // see set.sql
		case task.IfAbsent:
			over[i] = -1
		case task.KeepDue:
			over[i] = -2
		}
		if task.Payload != nil {
			if payloads == nil {
				payloads = make([][]byte, n)
			}
			payloads[i] = task.Payload
		}
		if from := origin.Of(task); from != "" {
			if callbacks == nil {
				callbacks = make([]*string, n)
			}
			kept := from // from itself would be allocated for each task
			callbacks[i] = &kept
		}
	}
	topics, ids := ts.columns()
	return []any{topics, ids, slots, due, after, over, callbacks, payloads}
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
func readSet(rows pgx.Rows, ts targets, answers []engine.Answer) error {
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
			answers[ts[next].index] = engine.Answer{Was: engine.State(was), Version: version, Due: time.UnixMilli(due)}
			next++
		}
		return nil
	})
	return err
}
