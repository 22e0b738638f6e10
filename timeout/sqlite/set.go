package sqlite

import (
	"context"
	"errors"
	"strings"

	"github.com/heartwheel-go/heartwheel/timeout"
	"github.com/heartwheel-go/heartwheel/timeout/internal/sqlkit"
)

// Set is timeout.Engine's.
func (e *Engine) Set(ctx context.Context, tasks []timeout.Task) ([]timeout.Answer, error) {
	return e.setWith(tasks, func(do func(*session) error) error { return e.write(ctx, do) })
}

// setWith sets tasks, each group of them with one call of within.
func (e *Engine) setWith(tasks []timeout.Task, within func(func(*session) error) error) ([]timeout.Answer, error) {
	answers := make([]timeout.Answer, len(tasks))
	for _, group := range sqlkit.ByTopic(len(tasks), func(i int) timeout.Key { return tasks[i].Key() }) {
		err := within(func(s *session) error { return s.set(group, tasks, answers) })
		if errors.Is(err, timeout.ErrNotFound) {
			for _, i := range group.Index {
				answers[i].Err = err
			}
			continue
		}
		if err != nil {
			return nil, err
		}
	}
	return answers, nil
}

// set sets the tasks of a group. The numbers come first, so that this is a transaction that
// writes before it reads: see the package's comment.
func (s *session) set(group sqlkit.Group, tasks []timeout.Task, answers []timeout.Answer) error {
	number, err := s.numbers(len(group.Index))
	if err != nil {
		return err
	}
	t, err := s.topic(group.Topic)
	if err != nil {
		return err
	}
	ids, where := group.IDs(func(i int) timeout.Key { return tasks[i].Key() })
	if err := s.states(t.id, ids, func(id string, found timeout.Answer) { answers[where[id]] = found }); err != nil {
		return err
	}
	now := clock()
	rows := make([]any, 0, setRows*setColumns+setShared)
	rows = append(rows, t.id, t.slots-1)
	for _, i := range group.Index {
		task := &tasks[i]
		if task.IfAbsent && sqlkit.Live(answers[i].Was) {
			continue
		}
		due := task.DueAt(now)
		number++
		answers[i] = timeout.Answer{Was: answers[i].Was, Version: number, Due: sqlkit.Time(due)}
		call, err := sqlkit.WriteCallback(task.Callback)
		if err != nil {
			return err
		}
		rows = append(rows, task.ID, sqlkit.Hash(task.ID), due, number, call, blob(task.Payload))
		if len(rows) == setShared+setRows*setColumns {
			if _, err := s.exec(setMany, rows...); err != nil {
				return err
			}
			rows = rows[:setShared]
		}
	}
	for at := setShared; at < len(rows); at += setColumns {
		one := append(rows[:setShared:setShared], rows[at:at+setColumns]...)
		if _, err := s.exec(setOne, one...); err != nil {
			return err
		}
	}
	return nil
}

// blob is NULL where there is nothing.
func blob(payload []byte) any {
	if len(payload) == 0 {
		return nil
	}
	return payload
}

const (
	setShared  = 2 // topic, mask of slots
	setColumns = 6 // id, hash, due, version, callback, payload
	setRows    = 32
)

var setOne, setMany = setText(1), setText(setRows)

// setText writes the statement that sets so many tasks: much of the time of one is in calling
// the database. What was there and is not in it stays as it is: the log goes on. Parameters
// without numbers are found faster.
func setText(rows int) string {
	values := strings.TrimSuffix(strings.Repeat("(?, ?, ?, ?, ?, ?), ", rows), ", ")
	return `INSERT INTO {tasks} (topic, id, state, hash, slot, at, due, version, callback, payload)
		SELECT ?, column1, 1, column2, column2 & ?, column3, column3, column4, column5, column6 FROM (VALUES ` + values + `) WHERE true
		ON CONFLICT (topic, id) DO UPDATE SET state = 1, hash = excluded.hash, slot = excluded.slot,
		at = excluded.at, due = excluded.due, version = excluded.version, lease = 0, attempts = 0, span = 0,
		node = '', error = '', callback = excluded.callback, payload = excluded.payload`
}

// numbers takes numbers for versions or leases, and returns the one before the first.
func (s *session) numbers(n int) (before int64, err error) {
	var last int64
	_, err = s.one(`UPDATE {meta} SET value = value + ? WHERE name = 'number' RETURNING value`, []any{n}, &last)
	return last - int64(n), err
}
