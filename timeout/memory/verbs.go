package memory

import (
	"cmp"
	"context"
	"slices"
	"strings"
	"time"

	"github.com/heartwheel-go/heartwheel/timeout"
	"github.com/heartwheel-go/heartwheel/timeout/internal/cursor"
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
	t, err := e.topic(task.Topic)
	if err != nil {
		return timeout.Answer{Err: err}
	}
	en := t.tasks[task.ID]
	was := timeout.None
	if en != nil {
		was = en.state
	}
	if task.IfAbsent && (was == timeout.Pending || was == timeout.Running || was == timeout.Dead) {
		return en.answer(was)
	}
	if en == nil {
		en = &entry{topic: t, id: strings.Clone(task.ID)}
		t.tasks[en.id] = en
	}
	en.payload, en.due, en.attempts, en.more = string(task.Payload), task.DueAt(now()), 0, nil
	if task.Callback != nil {
		en.more = &more{callback: task.Callback}
	}
	e.wait(en)
	return en.answer(was)
}

// answer is one that tells what the task is like now.
func (en *entry) answer(was timeout.State) timeout.Answer {
	return timeout.Answer{Was: was, Version: en.version, Due: time.UnixMilli(en.due)}
}

// wait has a task wait for its action time, with a new version.
func (e *Engine) wait(en *entry) {
	e.number++
	en.version, en.at, en.lease = e.number, en.due, 0
	en.enter(timeout.Pending)
	e.file(en)
}

// enter has a task be in a state.
func (en *entry) enter(state timeout.State) {
	en.leave()
	if en.state != timeout.None {
		en.topic.counts[en.state]--
	}
	en.state = state
	en.topic.counts[state]++
}

// find returns a task, or nil.
func (e *Engine) find(key timeout.Key) *entry {
	if t := e.topics[key.Topic]; t != nil {
		return t.tasks[key.ID]
	}
	return nil
}

// Move is timeout.Engine's.
func (e *Engine) Move(ctx context.Context, moves []timeout.Move) ([]timeout.Answer, error) {
	if err := e.enter(ctx); err != nil {
		return nil, err
	}
	defer e.mu.Unlock()
	answers := make([]timeout.Answer, len(moves))
	for i, move := range moves {
		en := e.find(move.Key)
		if en == nil {
			continue
		}
		was := en.state
		if was == timeout.Pending {
			en.due = move.DueAt(now())
			e.wait(en)
		}
		answers[i] = en.answer(was)
	}
	return answers, nil
}

// Remove is timeout.Engine's.
func (e *Engine) Remove(ctx context.Context, removals []timeout.Removal) ([]timeout.Answer, error) {
	if err := e.enter(ctx); err != nil {
		return nil, err
	}
	defer e.mu.Unlock()
	answers := make([]timeout.Answer, len(removals))
	for i, removal := range removals {
		en := e.find(removal.Key)
		if en == nil {
			continue
		}
		if !removal.Removes(en.state, en.version) {
			answers[i] = en.answer(en.state)
			continue
		}
		answers[i].Was = en.state
		e.end(en, timeout.Removed)
	}
	return answers, nil
}

// end has a task be over, and forgets it where it is not to be kept.
func (e *Engine) end(en *entry, state timeout.State) {
	if state != timeout.Dead && en.topic.Retain == 0 {
		e.drop(en)
		return
	}
	en.enter(state)
	en.lease, en.at = 0, now()
	en.topic.heapOf(en).add(en)
}

// Replay is timeout.Engine's.
func (e *Engine) Replay(ctx context.Context, keys []timeout.Key) ([]timeout.Answer, error) {
	if err := e.enter(ctx); err != nil {
		return nil, err
	}
	defer e.mu.Unlock()
	answers := make([]timeout.Answer, len(keys))
	for i, key := range keys {
		en := e.find(key)
		if en == nil {
			continue
		}
		was := en.state
		if was == timeout.Dead {
			en.due, en.attempts = now(), 0
			e.wait(en)
		}
		answers[i] = en.answer(was)
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
		if en := e.find(key); en != nil {
			tasks[i] = en.task()
		} else {
			tasks[i] = timeout.Task{Topic: key.Topic, ID: key.ID}
		}
	}
	return tasks, nil
}

// List is timeout.Engine's. It looks at all tasks of the topic.
func (e *Engine) List(ctx context.Context, query timeout.Query) (timeout.Page, error) {
	at, id, err := cursor.Read(query.Cursor)
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
		if en.state == query.State && cmp.Or(cmp.Compare(en.at, at), cmp.Compare(en.id, id)) > 0 {
			found = append(found, en)
		}
	}
	slices.SortFunc(found, func(a, b *entry) int { return cmp.Or(cmp.Compare(a.at, b.at), cmp.Compare(a.id, b.id)) })
	var page timeout.Page
	limit := query.Limit
	if limit == 0 {
		limit = 100
	}
	bytes := 0
	for i, en := range found {
		if bytes += len(en.payload); i == limit || bytes > timeout.MaxPageBytes {
			last := found[i-1]
			page.Next = cursor.Write(last.at, last.id)
			break
		}
		page.Tasks = append(page.Tasks, en.task())
	}
	return page, nil
}
