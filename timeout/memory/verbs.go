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
	return ending(ctx, e, tasks, engine.EndedBySet, func(task engine.Task) engine.Answer {
		t := e.topics.Get(task.Topic)
		if t == nil {
			return engine.Answer{Err: noTopic(task.Topic)}
		}
		en := t.tasks.Get(task.ID)
		was := en.asIs().Was
		if task.IfAbsent && (was == engine.Pending || was == engine.Running || was == engine.Dead) {
			return en.asIs()
		}
		due := task.DueAt(from(task.After))
		at := due
		if task.KeepDue && (was == engine.Pending || was == engine.Running) {
			due, at = en.due, en.due
			if was == engine.Pending {
				at = en.at
			}
		}
		if en == nil {
			en = &entry{topic: t, id: strings.Clone(task.ID)}
			t.tasks.Set(en.id, en)
		}
		en.payload, en.created, en.attempts, en.more = string(task.Payload), now(), 0, nil
		if task.Callback != nil || len(task.Trace) > 0 || !task.Options.IsZero() {
			en.more = &more{callback: task.Callback.Clone(), trace: maps.Clone(task.Trace), options: task.Options.Clone()}
		}
		return e.retime(en, was, due, at)
	})
}

// asIs is the answer for a task that stays as it is, or that does not exist.
func (en *entry) asIs() engine.Answer {
	if en == nil {
		return engine.Answer{}
	}
	return engine.Answer{Was: en.state, Version: en.version, Due: time.UnixMilli(en.due)}
}

// retime makes a task with an action time wait until at, with a new version.
func (e *Engine) retime(en *entry, was engine.State, due, at int64) engine.Answer {
	e.number++
	en.version, en.due = e.number, due
	e.enter(en, engine.Pending, at)
	answer := en.asIs()
	answer.Was = was
	return answer
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
	return each(ctx, e, moves, func(move engine.Move) engine.Answer {
		en := e.find(move.Key)
		if en == nil || !move.Moves(en.state, en.version) {
			return en.asIs()
		}
		due := move.DueAt(from(move.After))
		return e.retime(en, en.state, due, due)
	})
}

// Remove is engine.Engine's.
func (e *Engine) Remove(ctx context.Context, removals []engine.Removal) ([]engine.Answer, error) {
	return ending(ctx, e, removals, engine.EndedByRemoval, func(removal engine.Removal) engine.Answer {
		en := e.find(removal.Key)
		if en == nil || !removal.Removes(en.state, en.version) {
			return en.asIs()
		}
		was := en.state
		e.end(en, engine.Removed)
		return engine.Answer{Was: was}
	})
}

// Replay is engine.Engine's.
func (e *Engine) Replay(ctx context.Context, keys []engine.Key) ([]engine.Answer, error) {
	return each(ctx, e, keys, func(key engine.Key) engine.Answer {
		en := e.find(key)
		if en == nil || en.state != engine.Dead {
			return en.asIs()
		}
		en.begin(0)
		due := now()
		return e.retime(en, engine.Dead, due, due)
	})
}

// end ends a task, and forgets it if it is not to be kept.
func (e *Engine) end(en *entry, state engine.State) {
	if state != engine.Dead && en.topic.Retain == 0 {
		e.drop(en)
		return
	}
	e.enter(en, state, now())
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
