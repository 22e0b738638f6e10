package memory

import (
	"cmp"
	"context"
	"encoding/base64"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/heartwheel-go/heartwheel/timeout"
)

// Set is timeout.Engine's.
func (e *Engine) Set(ctx context.Context, tasks []timeout.Task) ([]timeout.Answer, error) {
	if err := e.enter(ctx); err != nil {
		return nil, err
	}
	defer e.mu.Unlock()
	answers := make([]timeout.Answer, len(tasks))
	for i, task := range tasks {
		answers[i] = e.set(task)
	}
	return answers, nil
}

func (e *Engine) set(task timeout.Task) timeout.Answer {
	t := e.topics[task.Topic]
	if t == nil {
		return timeout.Answer{Err: fmt.Errorf("%w: topic %q", timeout.ErrNotFound, task.Topic)}
	}
	en := t.tasks[task.ID]
	was := timeout.None
	if en != nil {
		was = en.State
	}
	if task.IfAbsent && (was == timeout.Pending || was == timeout.Running || was == timeout.Dead) {
		return timeout.Answer{Was: was, Version: en.Version, Due: en.Due}
	}
	if en == nil {
		en = &entry{topic: t}
		t.tasks[task.ID] = en
	}
	en.Task = timeout.Task{
		Topic:    task.Topic,
		ID:       task.ID,
		Payload:  slices.Clone(task.Payload),
		Due:      time.UnixMilli(task.DueAt(now())),
		Callback: task.Callback,
		State:    was,
	}
	en.log = nil
	e.wait(t, en)
	return timeout.Answer{Was: was, Version: en.Version, Due: en.Due}
}

// wait has a task wait for its Due, with a new version.
func (e *Engine) wait(t *topic, en *entry) {
	e.number++
	en.Version, en.at, en.lease = e.number, en.Due.UnixMilli(), 0
	t.enter(en, timeout.Pending)
	e.file(t, en)
}

// enter has a task be in a state.
func (t *topic) enter(en *entry, state timeout.State) {
	if en.State != timeout.None {
		t.counts[en.State]--
	}
	en.State = state
	t.counts[state]++
}

// find returns a task, or nil.
func (e *Engine) find(key timeout.Key) (*topic, *entry) {
	t := e.topics[key.Topic]
	if t == nil {
		return nil, nil
	}
	return t, t.tasks[key.ID]
}

// Move is timeout.Engine's.
func (e *Engine) Move(ctx context.Context, moves []timeout.Move) ([]timeout.Answer, error) {
	if err := e.enter(ctx); err != nil {
		return nil, err
	}
	defer e.mu.Unlock()
	answers := make([]timeout.Answer, len(moves))
	for i, move := range moves {
		t, en := e.find(move.Key)
		if en == nil {
			continue
		}
		answers[i].Was = en.State
		if en.State == timeout.Pending {
			en.Due = time.UnixMilli(move.DueAt(now()))
			e.wait(t, en)
		}
		answers[i].Version, answers[i].Due = en.Version, en.Due
	}
	return answers, nil
}

// Remove is timeout.Engine's.
func (e *Engine) Remove(ctx context.Context, keys []timeout.Key) ([]timeout.Answer, error) {
	if err := e.enter(ctx); err != nil {
		return nil, err
	}
	defer e.mu.Unlock()
	answers := make([]timeout.Answer, len(keys))
	for i, key := range keys {
		t, en := e.find(key)
		if en == nil {
			continue
		}
		answers[i].Was = en.State
		if en.State != timeout.Done && en.State != timeout.Removed {
			e.end(t, en, timeout.Removed)
		}
	}
	return answers, nil
}

// end has a task be over, and forgets it where it is not to be kept.
func (e *Engine) end(t *topic, en *entry, state timeout.State) {
	e.unfile(t, en)
	t.enter(en, state)
	en.lease, en.at = 0, now()
	if state != timeout.Dead && t.Retain == 0 {
		t.counts[state]--
		delete(t.tasks, en.ID)
	}
}

// Replay is timeout.Engine's.
func (e *Engine) Replay(ctx context.Context, keys []timeout.Key) ([]timeout.Answer, error) {
	if err := e.enter(ctx); err != nil {
		return nil, err
	}
	defer e.mu.Unlock()
	answers := make([]timeout.Answer, len(keys))
	for i, key := range keys {
		t, en := e.find(key)
		if en == nil {
			continue
		}
		answers[i].Was = en.State
		if en.State == timeout.Dead {
			en.Due, en.Attempts = time.UnixMilli(now()), 0
			e.wait(t, en)
		}
		answers[i].Version, answers[i].Due = en.Version, en.Due
	}
	return answers, nil
}

// Get is timeout.Engine's.
func (e *Engine) Get(ctx context.Context, keys []timeout.Key) ([]timeout.Task, error) {
	if err := e.enter(ctx); err != nil {
		return nil, err
	}
	defer e.mu.Unlock()
	tasks := make([]timeout.Task, len(keys))
	for i, key := range keys {
		if _, en := e.find(key); en != nil {
			tasks[i] = en.task()
		} else {
			tasks[i] = timeout.Task{Topic: key.Topic, ID: key.ID}
		}
	}
	return tasks, nil
}

func (en *entry) task() timeout.Task {
	task := en.Task
	task.Payload = slices.Clone(en.Payload)
	task.Until = time.UnixMilli(en.at)
	return task
}

// List is timeout.Engine's. It looks at all tasks of the topic.
func (e *Engine) List(ctx context.Context, query timeout.Query) (timeout.Page, error) {
	at, id, err := parseCursor(query.Cursor)
	if err != nil {
		return timeout.Page{}, err
	}
	if err := e.enter(ctx); err != nil {
		return timeout.Page{}, err
	}
	defer e.mu.Unlock()
	t := e.topics[query.Topic]
	if t == nil {
		return timeout.Page{}, nil
	}
	var found []*entry
	for _, en := range t.tasks {
		if en.State == query.State && (query.Cursor == "" || cmp.Or(cmp.Compare(en.at, at), cmp.Compare(en.ID, id)) > 0) {
			found = append(found, en)
		}
	}
	slices.SortFunc(found, func(a, b *entry) int { return cmp.Or(cmp.Compare(a.at, b.at), cmp.Compare(a.ID, b.ID)) })
	var page timeout.Page
	limit := query.Limit
	if limit == 0 {
		limit = 100
	}
	for i, en := range found {
		if i == limit {
			last := found[i-1]
			page.Next = base64.RawURLEncoding.EncodeToString(fmt.Appendf(nil, "%d/%s", last.at, last.ID))
			break
		}
		page.Tasks = append(page.Tasks, en.task())
	}
	return page, nil
}

func parseCursor(cursor string) (at int64, id string, err error) {
	if cursor == "" {
		return 0, "", nil
	}
	raw, err := base64.RawURLEncoding.DecodeString(cursor)
	number, id, found := strings.Cut(string(raw), "/")
	if err == nil && found {
		at, err = strconv.ParseInt(number, 10, 64)
	}
	if err != nil || !found {
		return 0, "", fmt.Errorf("%w: cursor %.50q", timeout.ErrArgument, cursor)
	}
	return at, id, nil
}
