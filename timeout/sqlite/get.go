package sqlite

import (
	"context"
	"errors"
	"time"

	"github.com/heartwheel-go/heartwheel/timeout"
	"github.com/heartwheel-go/heartwheel/timeout/internal/sqlkit"
)

const taskColumns = `t.id, t.state, t.at, t.due, t.version, t.attempts, t.node, t.error, t.callback, t.payload`

const selectTasks = `SELECT ` + taskColumns + `
	FROM json_each(?2) AS asked CROSS JOIN {tasks} AS t ON t.topic = ?1 AND t.id = asked.value`

// tasks reads tasks that are there, as long as row returns true.
func (s *session) tasks(topic int64, ids []string, row func(timeout.Task) (more bool)) error {
	list, err := jsonArray(ids)
	if err != nil {
		return err
	}
	return s.each(selectTasks, []any{topic, list}, func(scan func(...any) error) (bool, error) {
		task, err := readTask(scan)
		return err == nil && row(task), err
	})
}

func readTask(scan func(...any) error, more ...any) (task timeout.Task, err error) {
	var at, due int64
	var call string
	to := []any{&task.ID, &task.State, &at, &due, &task.Version, &task.Attempts, &task.Node, &task.Error, &call, &task.Payload}
	if err := scan(append(to, more...)...); err != nil {
		return task, err
	}
	task.Until, task.Due = sqlkit.Time(at), sqlkit.Time(due)
	task.Callback, err = sqlkit.ReadCallback(call)
	return task, err
}

// Get is timeout.Engine's.
func (e *Engine) Get(ctx context.Context, keys []timeout.Key) ([]timeout.Task, error) {
	tasks := make([]timeout.Task, len(keys))
	for i, key := range keys {
		tasks[i].Topic, tasks[i].ID = key.Topic, key.ID
	}
	for _, group := range sqlkit.ByTopic(len(keys), func(i int) timeout.Key { return keys[i] }) {
		err := e.read(ctx, func(s *session) error {
			t, err := s.topic(group.Topic)
			if err != nil {
				return err
			}
			ids, where := group.IDs(func(i int) timeout.Key { return keys[i] })
			return s.tasks(t.id, ids, func(task timeout.Task) bool {
				task.Topic = group.Topic
				tasks[where[task.ID]] = task
				return true
			})
		})
		if err != nil && !errors.Is(err, timeout.ErrNotFound) {
			return nil, err
		}
	}
	return tasks, nil
}

const selectEntries = `SELECT at, id FROM {tasks}
	WHERE topic = ?1 AND state = ?2 AND slot = ?3 AND (at, id) > (?4, ?5) ORDER BY at, id LIMIT ?6`

// entries reads what comes after a cursor in a slot.
func (s *session) entries(topic int64, state timeout.State, slot int, after sqlkit.Cursor, limit int) ([]sqlkit.Entry, error) {
	var entries []sqlkit.Entry
	err := s.each(selectEntries, []any{topic, state, slot, after.At, after.ID, limit}, func(scan func(...any) error) (bool, error) {
		entry := sqlkit.Entry{State: state, Slot: slot}
		err := scan(&entry.At, &entry.ID)
		entries = append(entries, entry)
		return true, err
	})
	return entries, err
}

// List is timeout.Engine's. A page also ends where its payloads have 4 MiB.
func (e *Engine) List(ctx context.Context, query timeout.Query) (page timeout.Page, err error) {
	after, err := sqlkit.CheckQuery(&query)
	if err != nil {
		return page, err
	}
	err = e.read(ctx, func(s *session) error {
		t, err := s.topic(query.Topic)
		if err != nil {
			return err
		}
		var parts [][]sqlkit.Entry
		for slot := range t.slots {
			entries, err := s.entries(t.id, query.State, slot, after, query.Limit+1)
			if err != nil {
				return err
			}
			parts = append(parts, entries)
		}
		entries, next := sqlkit.Merge(parts, query.Limit+1, query.Limit)
		page, err = s.page(query.Topic, t.id, entries, next)
		return err
	})
	if errors.Is(err, timeout.ErrNotFound) { // a topic that is not there has no tasks
		err = nil
	}
	return page, err
}

// page reads the tasks of entries, which are in the order of ids as well.
func (s *session) page(topic string, id int64, entries []sqlkit.Entry, next string) (page timeout.Page, err error) {
	ids := make([]string, len(entries))
	for i, entry := range entries {
		ids[i] = entry.ID
	}
	page = timeout.Page{Tasks: make([]timeout.Task, 0, len(entries)), Next: next}
	size := 0
	err = s.tasks(id, ids, func(task timeout.Task) bool {
		task.Topic = topic
		size += len(task.Payload)
		if size > sqlkit.PageBytes && len(page.Tasks) > 0 {
			last := page.Tasks[len(page.Tasks)-1]
			page.Next = sqlkit.Cursor{At: last.Until.UnixMilli(), ID: last.ID}.String()
			return false
		}
		page.Tasks = append(page.Tasks, task)
		return true
	})
	return page, err
}

const (
	selectCount = `SELECT state, count(*) FROM {tasks} WHERE topic = ?1 GROUP BY state`
	selectDue   = `SELECT coalesce(sum((SELECT count(*) FROM {tasks} WHERE topic = ?1 AND state = 1 AND slot = s.value AND at <= ?2)), 0),
		min((SELECT min(at) FROM {tasks} WHERE topic = ?1 AND state = 1 AND slot = s.value))
		FROM json_each(?3) AS s`
)

// Count is timeout.Engine's. It counts in the index: a tenth of a second for a million tasks.
// A count that takes longer than that is used for a while.
func (e *Engine) Count(ctx context.Context, topic string) (timeout.Counts, error) {
	return e.count.Get(topic, func() (counts timeout.Counts, err error) {
		err = e.read(ctx, func(s *session) error {
			counts, err = s.count(topic)
			return err
		})
		return counts, err
	})
}

func (s *session) count(name string) (counts timeout.Counts, err error) {
	t, err := s.topic(name)
	if err != nil {
		return counts, err
	}
	err = s.each(selectCount, []any{t.id}, func(scan func(...any) error) (bool, error) {
		var state timeout.State
		var n int64
		err := scan(&state, &n)
		sqlkit.Add(&counts, state, n)
		return true, err
	})
	if err != nil {
		return counts, err
	}
	slots, err := jsonArray(sqlkit.Slots(nil, t.slots))
	if err != nil {
		return counts, err
	}
	now := clock()
	var first *int64
	_, err = s.one(selectDue, []any{t.id, now, slots}, &counts.Due, &first)
	if first != nil {
		counts.Lag = max(0, time.Duration(now-*first)*time.Millisecond)
	}
	return counts, err
}
