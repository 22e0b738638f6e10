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
	return each(ctx, e, tasks, func(task engine.Task) engine.Answer {
		t := e.topics.Get(task.Topic)
		if t == nil {
			return engine.Answer{Err: noTopic(task.Topic)}
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
		en.payload, en.created, en.attempts, en.more = string(task.Payload), at, 0, nil
		if task.Callback != nil || len(task.Trace) > 0 {
			en.more = &more{callback: task.Callback.Clone(), trace: maps.Clone(task.Trace)}
		}
		return e.retime(en, was, task.DueAt(at))
	})
}

// answer returns an Answer with the present version and time of the task.
func (en *entry) answer(was engine.State) engine.Answer {
	return engine.Answer{Was: was, Version: en.version, Due: time.UnixMilli(en.due)}
}

// retime makes a task wait for a new action time, with a new version.
func (e *Engine) retime(en *entry, was engine.State, due int64) engine.Answer {
	e.number++
	en.version, en.due, en.at = e.number, due, due
	e.wait(en)
	return en.answer(was)
}

// wait makes a task wait, without a lease.
func (e *Engine) wait(en *entry) {
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

// change answers for each existing task. For others the answer is the zero one.
func change[A any](ctx context.Context, e *Engine, batch []A, keyOf func(A) engine.Key, answer func(A, *entry) engine.Answer) ([]engine.Answer, error) {
	return each(ctx, e, batch, func(one A) engine.Answer {
		if en := e.find(keyOf(one)); en != nil {
			return answer(one, en)
		}
		return engine.Answer{}
	})
}

// Move is engine.Engine's.
func (e *Engine) Move(ctx context.Context, moves []engine.Move) ([]engine.Answer, error) {
	return change(ctx, e, moves, func(m engine.Move) engine.Key { return m.Key }, func(move engine.Move, en *entry) engine.Answer {
		if move.Moves(en.state, en.version) {
			return e.retime(en, en.state, move.DueAt(now()))
		}
		return en.answer(en.state)
	})
}

// Remove is engine.Engine's.
func (e *Engine) Remove(ctx context.Context, removals []engine.Removal) ([]engine.Answer, error) {
	return change(ctx, e, removals, func(r engine.Removal) engine.Key { return r.Key }, func(removal engine.Removal, en *entry) engine.Answer {
		was := en.state
		if !removal.Removes(was, en.version) {
			return en.answer(was)
		}
		e.end(en, engine.Removed)
		return engine.Answer{Was: was}
	})
}

// Replay is engine.Engine's.
func (e *Engine) Replay(ctx context.Context, keys []engine.Key) ([]engine.Answer, error) {
	return change(ctx, e, keys, func(k engine.Key) engine.Key { return k }, func(_ engine.Key, en *entry) engine.Answer {
		if en.state != engine.Dead {
			return en.answer(en.state)
		}
		en.begin(0)
		return e.retime(en, engine.Dead, now())
	})
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

// Get is engine.Engine's.
func (e *Engine) Get(ctx context.Context, keys []engine.Key) ([]engine.Task, error) {
	return each(ctx, e, keys, func(key engine.Key) engine.Task {
		if en := e.find(key); en != nil {
			return en.task()
		}
		return engine.Task{Topic: key.Topic, ID: key.ID}
	})
}

// List is engine.Engine's. It looks at all tasks of the topic.
func (e *Engine) List(ctx context.Context, query engine.Query) (engine.Page, error) {
	at, id, err := cursor.Read(query.Cursor)
	if err != nil {
		return engine.Page{}, err
	}
	return call(ctx, e, func() (page engine.Page, _ error) {
		t := e.topics.Get(query.Topic)
		if t == nil {
			return page, nil
		}
		var found []*entry
		for _, en := range t.tasks.All() {
			if en.state == query.State && cmp.Or(cmp.Compare(en.at, at), cmp.Compare(en.id, id)) > 0 {
				found = append(found, en)
			}
		}
		slices.SortFunc(found, func(a, b *entry) int { return cmp.Or(cmp.Compare(a.at, b.at), cmp.Compare(a.id, b.id)) })
		bytes, task := 0, (*entry).task
		if query.OmitPayload {
			task = (*entry).brief
		}
		for i, en := range found {
			one := task(en)
			if bytes += len(one.Payload); i == cmp.Or(query.Limit, 100) || bytes > engine.MaxPageBytes {
				page.Next = cursor.Write(found[i-1].at, found[i-1].id)
				break
			}
			page.Tasks = append(page.Tasks, one)
		}
		return page, nil
	})
}
