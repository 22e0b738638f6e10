package postgres

import (
	"cmp"
	"context"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/heartwheel-go/heartwheel/timeout/engine"
	"github.com/heartwheel-go/heartwheel/timeout/internal/cursor"
	"github.com/heartwheel-go/heartwheel/timeout/internal/origin"
)

// row is a row of the columns {task} of a statement.
type row struct {
	id, node, failure string
	state             int16
	at, due, version  int64
	created           int64
	attempts          int32
	calls, failures   int32
	callback, payload []byte
}

func (r *row) targets() []any {
	return []any{&r.id, &r.state, &r.at, &r.due, &r.version, &r.attempts, &r.node, &r.failure, &r.callback, &r.payload, &r.created, &r.calls, &r.failures}
}

func (r *row) task(topic string) (engine.Task, error) {
	task := engine.Task{
		Topic: topic, ID: r.id, Payload: r.payload, State: engine.State(r.state), Version: r.version, Attempts: int(r.attempts),
		Due: time.UnixMilli(r.due), Until: time.UnixMilli(r.at), Node: r.node, Error: r.failure,
	}
	if len(r.payload) == 0 {
		task.Payload = nil
	}
	if r.created > 0 {
		task.Created = time.UnixMilli(r.created)
	}
	task.Count(int(r.calls), int(r.failures))
	return task, origin.Read(r.callback, &task)
}

// Get implements engine.Engine.
func (e *Engine) Get(ctx context.Context, keys []engine.Key) ([]engine.Task, error) {
	tasks := make([]engine.Task, len(keys))
	for i, key := range keys {
		tasks[i] = engine.Task{Topic: key.Topic, ID: key.ID}
	}
	err := chunks(len(keys), nil, func(from, to int) error {
		rounds, err := e.locate(ctx, e.direct(), to-from, keyOf(keys[from:to]))
		if err != nil || len(rounds) == 0 {
			return err
		}
		return e.transact(ctx, "reading tasks", func(batch *pgx.Batch) {
			for _, ps := range rounds {
				topics, ids := ps.columns()
				batch.Queue(e.sql.Get, topics, ids).Query(func(rows pgx.Rows) error {
					return readTasks(rows, "", func(n int64, task engine.Task) {
						i := from + ps[n-1].index
						task.Topic = keys[i].Topic
						tasks[i] = task
					})
				})
			}
		})
	})
	if err != nil {
		return nil, err
	}
	return tasks, nil
}

// readTasks reads rows of a number, more columns if wanted, and a task.
func readTasks(rows pgx.Rows, topic string, found func(n int64, task engine.Task), more ...any) error {
	var n int64
	var r row
	_, err := pgx.ForEachRow(rows, slices.Concat([]any{&n}, more, r.targets()), func() error {
		task, err := r.task(topic)
		if err == nil {
			found(n, task)
		}
		r = row{}
		return err
	})
	return err
}

// List implements engine.Engine. Pages are in the order of Until; equal times, in the order of ids.
func (e *Engine) List(ctx context.Context, query engine.Query) (engine.Page, error) {
	at, id, err := cursor.Read(query.Cursor)
	if err != nil {
		return engine.Page{}, err
	}
	limit := cmp.Or(query.Limit, 100)
	var page engine.Page
	var there, size int64
	err = e.transact(ctx, "listing tasks", func(batch *pgx.Batch) {
		page, there = engine.Page{}, 0
		batch.Queue(e.sql.List, query.Topic, int16(query.State), at, id, limit, engine.MaxPageBytes, query.OmitPayload).Query(func(rows pgx.Rows) error {
			return readTasks(rows, query.Topic, func(found int64, task engine.Task) {
				there = found
				task.PayloadBytes = int(size)
				page.Tasks = append(page.Tasks, task)
			}, &size)
		})
	})
	if err != nil {
		return engine.Page{}, err
	}
	if n := len(page.Tasks); n == limit || int64(n) < there {
		last := page.Tasks[n-1]
		page.Next = cursor.Write(last.Until.UnixMilli(), last.ID)
	}
	return page, nil
}
