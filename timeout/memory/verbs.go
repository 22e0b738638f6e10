package memory

import (
	"cmp"
	"context"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/heartwheel-go/heartwheel/timeout/engine"
	"github.com/heartwheel-go/heartwheel/timeout/internal/cursor"
)

// Set is engine.Engine's.
func (e *Engine) Set(ctx context.Context, tasks []engine.Task) ([]engine.Answer, error) {
	if err := e.enter(ctx); err != nil {
		return nil, err
	}
	defer e.mu.Unlock()
	answers := make([]engine.Answer, len(tasks))
	for i, task := range tasks {
		answers[i] = e.set(task)
	}
	return answers, nil
}

func (e *Engine) set(task engine.Task) engine.Answer {
	t, err := e.topic(task.Topic)
	if err != nil {
		return engine.Answer{Err: err}
	}
	en := t.tasks.Get(task.ID)
	was := engine.None
	if en != nil {
		was = en.state
	}
	if task.IfAbsent && (was == engine.Pending || was == engine.Running || was == engine.Dead) {
		return en.answer(was)
	}
	if en == nil {
		en = &entry{topic: t, id: strings.Clone(task.ID)}
		t.tasks.Set(en.id, en)
	}
	at := now()
	en.payload, en.due, en.created, en.attempts, en.more = string(task.Payload), task.DueAt(at), at, 0, nil
	if task.Callback != nil || len(task.Trace) > 0 {
		en.more = &more{callback: task.Callback.Clone(), trace: maps.Clone(task.Trace)}
	}
	e.wait(en)
	return en.answer(was)
}

// answer returns an Answer with the present version and time of the task.
func (en *entry) answer(was engine.State) engine.Answer {
	return engine.Answer{Was: was, Version: en.version, Due: time.UnixMilli(en.due)}
}

// wait makes a task wait for its action time, with a new version.
func (e *Engine) wait(en *entry) {
	e.number++
	en.version, en.at = e.number, en.due
	en.free()
	en.enter(engine.Pending)
	e.file(en)
}

// enter changes the state of a task, and the counts.
func (en *entry) enter(state engine.State) {
	en.leave()
	if en.state != engine.None {
		en.topic.counts[en.state]--
	}
	en.state = state
	en.topic.counts[state]++
}

// find returns a task, or nil.
func (e *Engine) find(key engine.Key) *entry {
	if t := e.topics.Get(key.Topic); t != nil {
		return t.tasks.Get(key.ID)
	}
	return nil
}

// Move is engine.Engine's.
func (e *Engine) Move(ctx context.Context, moves []engine.Move) ([]engine.Answer, error) {
	if err := e.enter(ctx); err != nil {
		return nil, err
	}
	defer e.mu.Unlock()
	answers := make([]engine.Answer, len(moves))
	for i, move := range moves {
		en := e.find(move.Key)
		if en == nil {
			continue
		}
		was := en.state
		if move.Moves(was, en.version) {
			en.due = move.DueAt(now())
			e.wait(en)
		}
		answers[i] = en.answer(was)
	}
	return answers, nil
}

// Remove is engine.Engine's.
func (e *Engine) Remove(ctx context.Context, removals []engine.Removal) ([]engine.Answer, error) {
	if err := e.enter(ctx); err != nil {
		return nil, err
	}
	defer e.mu.Unlock()
	answers := make([]engine.Answer, len(removals))
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
		e.end(en, engine.Removed)
	}
	return answers, nil
}

// end ends a task, and forgets it if it is not to be kept.
func (e *Engine) end(en *entry, state engine.State) {
	if state != engine.Dead && en.topic.Retain == 0 {
		e.drop(en)
		return
	}
	en.enter(state)
	en.at = now()
	en.free()
	en.topic.heapOf(en).add(en)
}

// Replay is engine.Engine's.
func (e *Engine) Replay(ctx context.Context, keys []engine.Key) ([]engine.Answer, error) {
	if err := e.enter(ctx); err != nil {
		return nil, err
	}
	defer e.mu.Unlock()
	answers := make([]engine.Answer, len(keys))
	for i, key := range keys {
		en := e.find(key)
		if en == nil {
			continue
		}
		was := en.state
		if was == engine.Dead {
			en.due = now()
			en.begin(0)
			e.wait(en)
		}
		answers[i] = en.answer(was)
	}
	return answers, nil
}

// Get is engine.Engine's.
func (e *Engine) Get(ctx context.Context, keys []engine.Key) ([]engine.Task, error) {
	if err := e.enter(ctx); err != nil {
		return nil, err
	}
	defer e.mu.Unlock()
	tasks := make([]engine.Task, len(keys))
	for i, key := range keys {
		if en := e.find(key); en != nil {
			tasks[i] = en.task()
		} else {
			tasks[i] = engine.Task{Topic: key.Topic, ID: key.ID}
		}
	}
	return tasks, nil
}

// List is engine.Engine's. It looks at all tasks of the topic.
func (e *Engine) List(ctx context.Context, query engine.Query) (engine.Page, error) {
	at, id, err := cursor.Read(query.Cursor)
	if err != nil {
		return engine.Page{}, err
	}
	if err := e.enter(ctx); err != nil {
		return engine.Page{}, err
	}
	defer e.mu.Unlock()
	t := e.topics.Get(query.Topic)
	if t == nil {
		return engine.Page{}, nil
	}
	var found []*entry
	for _, en := range t.tasks.All() {
		if en.state == query.State && cmp.Or(cmp.Compare(en.at, at), cmp.Compare(en.id, id)) > 0 {
			found = append(found, en)
		}
	}
	slices.SortFunc(found, func(a, b *entry) int { return cmp.Or(cmp.Compare(a.at, b.at), cmp.Compare(a.id, b.id)) })
	var page engine.Page
	limit := cmp.Or(query.Limit, 100)
	bytes := 0
	for i, en := range found {
		if !query.OmitPayload {
			bytes += len(en.payload)
		}
		if i == limit || bytes > engine.MaxPageBytes {
			last := found[i-1]
			page.Next = cursor.Write(last.at, last.id)
			break
		}
		if query.OmitPayload {
			page.Tasks = append(page.Tasks, en.brief())
		} else {
			page.Tasks = append(page.Tasks, en.task())
		}
	}
	return page, nil
}
