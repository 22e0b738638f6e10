package postgres

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"sort"
	"strings"
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
	tasks, err := inRounds(ctx, e, e.direct(), "reading tasks", len(keys), keyOf(keys), nil, func(tasks []engine.Task, batch *pgx.Batch, ts targets, _ bool) {
		topics, ids := ts.columns()
		batch.Queue(e.sql.Get, topics, ids).Query(func(rows pgx.Rows) error {
			return readTasks(rows, "", func(n int64, task engine.Task) { tasks[ts[n-1].index] = task })
		})
	})
	for i := range tasks {
		tasks[i].Topic, tasks[i].ID = keys[i].Topic, keys[i].ID
	}
	return tasks, err
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

// position is between two tasks of a list, in the order of Until and id: after the task that it has the values of.
type position struct {
	at int64
	id string
}

func (p position) compare(other position) int {
	return cmp.Or(cmp.Compare(p.at, other.at), cmp.Compare(p.id, other.id))
}

func until(task engine.Task) position { return position{task.Until.UnixMilli(), task.ID} }

// listing is where a list goes on. In the index, moved tasks of earlier pages may be left after a position before from.
type listing struct{ from, left position }

func (l listing) String() string {
	text := cursor.Write(l.from.at, l.from.id)
	if l.left != l.from {
		text += "." + cursor.Write(l.left.at, l.left.id)
	}
	return text
}

func parseListing(text string) (l listing, err error) {
	from, left, some := strings.Cut(text, ".")
	l.from.at, l.from.id, err = cursor.Read(from)
	if l.left = l.from; err == nil && some {
		l.left.at, l.left.id, err = cursor.Read(left)
	}
	if err == nil && text != "" && l.String() != text {
		err = fmt.Errorf("%w: cursor %.100q, must be the Next of a page", engine.ErrArgument, text)
	}
	return l, err
}

// listRounds is the greatest number of searches to fill a page.
const listRounds = 8

// List implements engine.Engine. Pages are in the order of Until; equal times, in the order of ids. It files the moved tasks
// again that it comes upon. Among many of them, a page can have few tasks or none.
func (e *Engine) List(ctx context.Context, query engine.Query) (engine.Page, error) {
	l, err := parseListing(query.Cursor)
	if err != nil {
		return engine.Page{}, err
	}
	limit := cmp.Or(query.Limit, 100)
	var page engine.Page
	bytes := 0
	for rounds, look := 1, limit; ; rounds, look = rounds+1, maxChunk {
		query.Limit = limit - len(page.Tasks)
		tasks, end, passed, err := e.list(ctx, query, l, look, engine.MaxPageBytes-bytes)
		if err != nil {
			return engine.Page{}, err
		}
		page.Tasks = append(page.Tasks, tasks...)
		if end == nil {
			return page, nil
		}
		if l.from = *end; !passed || e.refile(ctx, query.Topic, l) {
			l.left = l.from
		}
		for _, task := range tasks {
			bytes += len(task.Payload)
		}
		if len(page.Tasks) == limit || rounds == listRounds || bytes > engine.MaxPageBytes-engine.MaxPayload {
			page.Next = l.String()
			return page, nil
		}
	}
}

// list looks at a number of tasks in the order of the index. It returns those of a part of the list, with at most so many
// bytes, and the end of the part, unless it is the last one. passed reports whether the index may have moved tasks in the part
// although they come after it.
func (e *Engine) list(ctx context.Context, query engine.Query, l listing, look, bytes int) (tasks []engine.Task, end *position, passed bool, err error) {
	var found, size int64
	var moved bool
	var lastAt *int64
	var lastID *string
	err = e.transact(ctx, "listing tasks", func(batch *pgx.Batch) {
		tasks, found, moved, lastAt, lastID = nil, 0, false, nil, nil
		batch.Queue(e.sql.List, query.Topic, int16(query.State), l.from.at, l.from.id, query.Limit, bytes, l.left.at, l.left.id, look, query.OmitPayload).Query(func(rows pgx.Rows) error {
			return readTasks(rows, query.Topic, func(n int64, task engine.Task) {
				found = n
				task.PayloadBytes = int(size)
				tasks = append(tasks, task)
			}, &moved, &lastAt, &lastID, &size)
		})
	})
	if err != nil {
		return nil, nil, false, err
	}
	read := len(tasks)
	if lastAt != nil {
		end = &position{*lastAt, *lastID}
		tasks = tasks[:sort.Search(read, func(i int) bool { return until(tasks[i]).compare(*end) > 0 })]
	}
	cut := int64(read) < found
	if n := len(tasks); cut && n == read {
		last := until(tasks[n-1])
		end = &last
	}
	return tasks, end, moved && (cut || len(tasks) < read), nil
}

// refile files the moved tasks again that a page has passed. It reports whether it has left none.
func (e *Engine) refile(ctx context.Context, topic string, l listing) bool {
	left := 0
	err := e.transact(ctx, "filing moved tasks again", func(batch *pgx.Batch) {
		batch.Queue(e.sql.Refile, topic, l.left.at, l.left.id, l.from.at, l.from.id).QueryRow(func(row pgx.Row) error { return row.Scan(&left) })
	})
	return err == nil && left == 0
}
