// Package toy is an engine of a timeout center: two maps and a mutex, with the whole contract of package engine. Read it
// before you write an engine. It is for no other use: each call looks at all tasks, and nothing survives the process. In
// an engine with a database, a transaction takes the place of call, and an index that of among. The toy leaves out what
// an engine may leave out: engine.Log, Waker, Peeker and Primary.
package toy

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/heartwheel-go/heartwheel/timeout/engine"
)

type toy struct {
	mu     sync.Mutex
	topics map[string]engine.Topic
	tasks  map[engine.Key]*task
	nodes  []member // in the order of arrival
	last   int64    // the last version or number of a lease
	closed bool
}

// task is a task as callers see it, and its lease. One time counts: a Pending or Running task is due at Until.
type task struct {
	engine.Task
	lease int64 // number of the last one
}

// New returns an empty engine. Its numbers begin at the clock, so a token from before a restart holds no lease.
func New() engine.Engine {
	return &toy{topics: make(map[string]engine.Topic), tasks: make(map[engine.Key]*task), last: time.Now().UnixMicro()}
}

// next returns a version or the number of a lease, higher than all before.
func (e *toy) next() int64 { e.last++; return e.last }

// call does the work of one call, alone and at one time: so each task of a batch changes atomically. Now has a monotonic
// reading, and so has the end of a lease. Hence a lease is a length of time even if somebody sets the machine's clock,
// and an action time is by that clock. Callers see whole milliseconds, rounded down: nothing is early.
func call[R any](ctx context.Context, e *toy, work func(now time.Time) (R, error)) (result R, err error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if err := ctx.Err(); err != nil || e.closed {
		return result, cmp.Or(err, engine.ErrClosed)
	}
	return work(time.Now())
}

// each answers each element of a batch in turn.
func each[A, R any](ctx context.Context, e *toy, batch []A, answer func(one A, now time.Time) R) ([]R, error) {
	return call(ctx, e, func(now time.Time) (answers []R, _ error) {
		for _, one := range batch {
			answers = append(answers, answer(one, now))
		}
		return answers, nil
	})
}

// in does the work of a call for one topic.
func in[R any](ctx context.Context, e *toy, name string, work func(topic engine.Topic, now time.Time) R) (R, error) {
	return call(ctx, e, func(now time.Time) (result R, _ error) {
		if topic, found := e.topics[name]; found {
			return work(topic.At(now.UnixMilli()), now), nil
		}
		return result, fmt.Errorf("%w: topic %s", engine.ErrNotFound, name)
	})
}

func (e *toy) SetTopic(ctx context.Context, topic engine.Topic, onlyNew bool, was ...engine.Topic) (engine.Topic, error) {
	return call(ctx, e, func(now time.Time) (engine.Topic, error) {
		kept, changes, err := topic.In(e.topics[topic.Name], now.UnixMilli(), onlyNew, was...)
		if changes {
			e.topics[topic.Name] = kept.Clone()
		}
		return kept.Clone(), err
	})
}

func (e *toy) Pause(ctx context.Context, name string, paused bool, until time.Time) (engine.Topic, error) {
	return in(ctx, e, name, func(topic engine.Topic, now time.Time) engine.Topic {
		topic.Paused, topic.PausedUntil = paused, until
		e.topics[name] = topic.At(now.UnixMilli())
		return e.topics[name].Clone()
	})
}

func (e *toy) Topics(ctx context.Context) ([]engine.Topic, error) {
	return call(ctx, e, func(now time.Time) (topics []engine.Topic, _ error) {
		for _, name := range slices.Sorted(maps.Keys(e.topics)) {
			topics = append(topics, e.topics[name].At(now.UnixMilli()).Clone())
		}
		return topics, nil
	})
}

func (e *toy) DropTopic(ctx context.Context, name string) error {
	_, err := in(ctx, e, name, func(engine.Topic, time.Time) bool {
		delete(e.topics, name)
		maps.DeleteFunc(e.tasks, func(key engine.Key, _ *task) bool { return key.Topic == name })
		return true
	})
	return err
}

func (e *toy) Count(ctx context.Context, name string) (engine.Counts, error) {
	return in(ctx, e, name, func(topic engine.Topic, now time.Time) (counts engine.Counts) {
		for _, task := range e.among(topic, nil) {
			counts.Add(task.State, 1)
			if lag := now.Sub(task.Until); task.State == engine.Pending && lag >= 0 {
				counts.Due, counts.Lag = counts.Due+1, max(counts.Lag, lag)
			}
		}
		return counts
	})
}

// among returns the tasks of a topic in some slots and states, the earliest first. Nil means all slots, or all states.
func (e *toy) among(topic engine.Topic, slots []int, states ...engine.State) []*task {
	slots = topic.Asked(slots)
	return slices.DeleteFunc(slices.SortedFunc(maps.Values(e.tasks), compare), func(t *task) bool {
		return t.Topic != topic.Name || !slices.Contains(slots, engine.Slot(t.ID, topic.Slots)) ||
			states != nil && !slices.Contains(states, t.State)
	})
}

// compare compares two tasks by their times, and then by their ids.
func compare(a, b *task) int {
	return cmp.Or(cmp.Compare(a.Until.UnixMilli(), b.Until.UnixMilli()), cmp.Compare(a.ID, b.ID))
}

func (e *toy) Set(ctx context.Context, tasks []engine.Task) ([]engine.Answer, error) {
	return each(ctx, e, tasks, func(set engine.Task, now time.Time) engine.Answer {
		if _, found := e.topics[set.Topic]; !found {
			return engine.Answer{Err: fmt.Errorf("%w: topic %s", engine.ErrNotFound, set.Topic)}
		}
		old := e.find(set.Key())
		if set.IfAbsent && slices.Contains([]engine.State{engine.Pending, engine.Running, engine.Dead}, old.State) {
			return old.answer(old.State)
		}
		task := &task{Task: engine.Task{Topic: set.Topic, ID: set.ID, Version: e.next(), Created: now.Truncate(time.Millisecond)}}
		task.Payload, task.Callback = slices.Clone(set.Payload), set.Callback.Clone()
		if len(set.Trace) > 0 {
			task.Trace = maps.Clone(set.Trace)
		}
		task.Options = set.Options.Clone()
		if task.wait(set.DueAt(now.UnixMilli())); set.KeepDue && old.State == engine.Pending {
			task.Due, task.Until = old.Due, old.Until
		} else if set.KeepDue && old.State == engine.Running {
			task.wait(old.Due.UnixMilli())
		}
		e.tasks[task.Key()] = task
		return task.answer(old.State)
	})
}

// find returns a task. A missing one has no state, and is not in the map.
func (e *toy) find(key engine.Key) *task {
	return cmp.Or(e.tasks[key], &task{Task: engine.Task{Topic: key.Topic, ID: key.ID}})
}

// answer returns the answer of a call before which the task was in that state.
func (t *task) answer(was engine.State) engine.Answer {
	return engine.Answer{Was: was, Version: t.Version, Due: t.Due}
}

// wait makes the task wait for an action time.
func (t *task) wait(due int64) {
	t.State, t.Due, t.Until = engine.Pending, time.UnixMilli(due), time.UnixMilli(due)
}

func (e *toy) Move(ctx context.Context, moves []engine.Move) ([]engine.Answer, error) {
	return each(ctx, e, moves, func(move engine.Move, now time.Time) engine.Answer {
		task := e.find(move.Key)
		if move.Moves(task.State, task.Version) {
			task.Version = e.next()
			task.wait(move.DueAt(now.UnixMilli()))
		}
		return task.answer(task.State)
	})
}

func (e *toy) Replay(ctx context.Context, keys []engine.Key) ([]engine.Answer, error) {
	return each(ctx, e, keys, func(key engine.Key, now time.Time) engine.Answer {
		task := e.find(key)
		was := task.State
		if was == engine.Dead {
			task.Version, task.Attempts = e.next(), 0
			task.wait(now.UnixMilli())
		}
		return task.answer(was)
	})
}

func (e *toy) Remove(ctx context.Context, removals []engine.Removal) ([]engine.Answer, error) {
	return each(ctx, e, removals, func(removal engine.Removal, now time.Time) engine.Answer {
		task := e.find(removal.Key)
		was := task.State
		if !removal.Removes(was, task.Version) {
			return task.answer(was)
		}
		if was == engine.Running {
			task.Failures++ // the call is cut off
		}
		e.end(task, engine.Removed, now)
		return engine.Answer{Was: was}
	})
}

// end ends a task. Without Topic.Retain it is gone at once.
func (e *toy) end(task *task, state engine.State, now time.Time) {
	task.State, task.Until = state, now
	if state != engine.Dead && e.topics[task.Topic].Retain == 0 {
		delete(e.tasks, task.Key())
	}
}

func (e *toy) Get(ctx context.Context, keys []engine.Key) ([]engine.Task, error) {
	return each(ctx, e, keys, func(key engine.Key, _ time.Time) engine.Task { return e.find(key).seen() })
}

// seen returns the task for a caller, who may change the payload, the callback and the trace.
func (t *task) seen() engine.Task {
	task := t.Task
	task.Until = t.Until.Truncate(time.Millisecond)
	task.Payload, task.Callback, task.Trace = slices.Clone(t.Payload), t.Callback.Clone(), maps.Clone(t.Trace)
	task.Options = t.Options.Clone()
	return task
}

func (e *toy) List(ctx context.Context, query engine.Query) (engine.Page, error) {
	return call(ctx, e, func(time.Time) (page engine.Page, _ error) {
		last, until, room := new(task), int64(0), engine.MaxPageBytes
		if _, err := fmt.Sscanf(query.Cursor, "%d %q", &until, &last.ID); err != nil && query.Cursor != "" {
			return page, fmt.Errorf("%w: cursor %q, must be the Next of a page", engine.ErrArgument, query.Cursor)
		}
		last.Until = time.UnixMilli(until)
		for _, task := range e.among(e.topics[query.Topic], nil, query.State) {
			if compare(task, last) <= 0 {
				continue
			}
			listed := task.seen()
			if query.OmitPayload {
				listed.PayloadBytes, listed.Payload = len(listed.Payload), nil
			}
			room -= len(listed.Payload)
			if n := len(page.Tasks); n == cmp.Or(query.Limit, 100) || n > 0 && room < 0 {
				page.Next = fmt.Sprintf("%d %q", last.Until.UnixMilli(), last.ID)
				break
			}
			page.Tasks, last = append(page.Tasks, listed), task
		}
		return page, nil
	})
}

func (e *toy) Lease(ctx context.Context, ask engine.Ask) (engine.Batch, error) {
	return in(ctx, e, ask.Topic, func(topic engine.Topic, now time.Time) engine.Batch {
		batch := engine.Batch{Now: now.Truncate(time.Millisecond)}
		for _, outcome := range ask.Settle {
			batch.Settled = append(batch.Settled, e.settle(outcome, now))
		}
		if topic.Paused {
			batch.Next = topic.PausedUntil
			return batch
		}
		for _, task := range e.among(topic, ask.Slots, engine.Pending, engine.Running) {
			if len(batch.Leased) == ask.Max || now.Sub(task.Until) < ask.OverdueBy {
				batch.Next = cmp.Or(batch.Next, task.Until)
				continue
			}
			again := task.State == engine.Running
			if again {
				task.fail(engine.LeaseEnded(task.Node, task.Attempts))
			}
			task.State, task.Node, task.lease = engine.Running, ask.Node, e.next()
			task.Attempts, task.Calls = task.Attempts+1, task.Calls+1
			task.Until = now.Add(ask.Lease)
			token := engine.Token{Key: task.Key(), Lease: task.lease}
			batch.Leased = append(batch.Leased, engine.Leased{Task: task.seen(), Token: token, Again: again})
		}
		return batch
	})
}

// fail counts a failed attempt.
func (t *task) fail(why string) { t.Error, t.Failures = why, t.Failures+1 }

func (e *toy) Extend(ctx context.Context, tokens []engine.Token, lease time.Duration) ([]bool, error) {
	return each(ctx, e, tokens, func(token engine.Token, now time.Time) bool {
		task, held := e.held(token)
		if held {
			task.Until = now.Add(lease)
		}
		return held
	})
}

// held returns a token's task, and whether its lease is the last one. It may have ended, as long as none has followed.
func (e *toy) held(token engine.Token) (*task, bool) {
	task := e.find(token.Key)
	return task, task.State == engine.Running && task.lease == token.Lease
}

// settle applies an outcome, if its lease is the last one of the task.
func (e *toy) settle(outcome engine.Outcome, now time.Time) bool {
	task, held := e.held(outcome.Token)
	switch due := outcome.DueAt(now.UnixMilli()); {
	case !held:
	case outcome.As == engine.Done:
		e.end(task, engine.Done, now)
	case outcome.As == engine.Dead:
		if outcome.Release {
			task.Attempts, task.Calls, task.Failures = task.Attempts-1, task.Calls-1, task.Failures-1
		}
		task.fail(outcome.Error)
		e.end(task, engine.Dead, now)
	case outcome.NewRun:
		task.Error, task.Node, task.Attempts = outcome.Error, "", 0
		if outcome.Release {
			task.Calls--
		} else if outcome.Error != "" {
			task.Failures++
		}
		task.wait(due)
	case outcome.Release:
		task.Attempts, task.Calls, task.State, task.Until = task.Attempts-1, task.Calls-1, engine.Pending, time.UnixMilli(due)
	default:
		task.fail(outcome.Error)
		task.State, task.Until = engine.Pending, time.UnixMilli(due)
	}
	return held
}

func (e *toy) Maintain(ctx context.Context) (engine.Purged, error) {
	return call(ctx, e, func(now time.Time) (purged engine.Purged, _ error) {
		maps.DeleteFunc(e.tasks, func(key engine.Key, t *task) bool {
			return (t.State == engine.Done || t.State == engine.Removed) && now.Sub(t.Until) >= e.topics[key.Topic].Retain
		})
		for name, topic := range e.topics {
			dead := e.among(topic, nil, engine.Dead)
			for i, task := range dead {
				if now.Sub(task.Until) >= topic.RetainDead || topic.MaxDead >= 0 && len(dead)-i > topic.MaxDead {
					delete(e.tasks, task.Key())
					purged.AddDead(name, 1)
				}
			}
		}
		return purged, nil
	})
}

func (e *toy) Now(ctx context.Context) (time.Time, error) {
	return call(ctx, e, func(now time.Time) (time.Time, error) { return now.Truncate(time.Millisecond), nil })
}

func (e *toy) Ready(ctx context.Context) error { _, err := e.Now(ctx); return err }

func (e *toy) Close() error {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.topics, e.tasks, e.closed = nil, nil, true
	return nil
}

// member is a node, with the Run of its last heartbeat.
type member struct {
	engine.Node
	ttl time.Duration
	end time.Time // of its life, without another heartbeat
}

func (e *toy) Heartbeat(ctx context.Context, node engine.Node, ttl time.Duration) (engine.View, error) {
	return call(ctx, e, func(now time.Time) (view engine.View, _ error) {
		e.nodes = slices.DeleteFunc(e.nodes, func(m member) bool { return !m.end.After(now) })
		at := slices.IndexFunc(e.nodes, func(m member) bool { return m.Name == node.Name })
		if at < 0 {
			at, e.nodes = len(e.nodes), append(e.nodes, member{Node: node})
		}
		view.Other = node.Other(e.nodes[at].Run)
		node.Topics = slices.Clone(node.Topics)
		e.nodes[at] = member{node, ttl, now.Add(ttl)}
		for _, m := range e.nodes {
			view.Nodes, view.TTL = append(view.Nodes, engine.Node{Name: m.Name, Topics: slices.Clone(m.Topics)}), max(view.TTL, m.ttl)
		}
		return view, nil
	})
}

func (e *toy) Leave(ctx context.Context, name string) error {
	_, err := call(ctx, e, func(time.Time) (bool, error) {
		e.nodes = slices.DeleteFunc(e.nodes, func(m member) bool { return m.Name == name })
		return true, nil
	})
	return err
}
