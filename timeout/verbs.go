package timeout

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"
)

// Set makes a task wait for its action time, in whatever state it was. The answer has the old state
// and the new version. A missing topic is made, with Config.Topic. With Task.IfAbsent Set
// changes nothing if the task waits, runs or is dead: see Answer.Was.
func (c *Center) Set(ctx context.Context, task Task) (Answer, error) {
	return checked(c, c.checkTask, []Task{task}, func() (Answer, error) {
		if err := c.ensure(ctx, task)[task.Topic]; err != nil {
			return Answer{}, err
		}
		if task.OnSchedule {
			scheduled, err := c.schedule(ctx, task)
			if err != nil {
				return Answer{}, err
			}
			task = scheduled[0]
		}
		answer, err := c.sets.call(ctx, task)
		if err == nil {
			c.meet(task)
		}
		return answer, err
	})
}

// SetAll is Set for many tasks. If a key occurs several times, the last one stays. If one task
// is invalid, the error wraps ErrArgument, and nothing is done. If a task's topic is missing
// and may not be made, or the task's part of the engine does not answer, Answer.Err of that
// task says so, and the others are set.
func (c *Center) SetAll(ctx context.Context, tasks []Task) ([]Answer, error) {
	return checked(c, c.checkTask, tasks, func() ([]Answer, error) {
		if slices.ContainsFunc(tasks, func(task Task) bool { return task.OnSchedule }) {
			var err error
			if tasks, err = c.schedule(ctx, tasks...); err != nil {
				return nil, err
			}
		}
		answers, err := c.sets.callAll(ctx, tasks)
		if err == nil {
			c.meet(tasks...)
		}
		return answers, err
	})
}

// schedule returns the tasks, with the action times of those with OnSchedule.
func (c *Center) schedule(ctx context.Context, tasks ...Task) ([]Task, error) {
	topics, err := c.engine.Topics(ctx)
	if err != nil {
		return nil, err
	}
	now, err := c.engine.Now(ctx)
	if err != nil {
		return nil, err
	}
	tasks = slices.Clone(tasks)
	for i := range tasks {
		task := &tasks[i]
		if !task.OnSchedule {
			continue
		}
		topic, err := topicOf(topics, task.Topic)
		if err != nil {
			return nil, err
		}
		schedule, err := scheduleOf(topic)
		if err == nil && schedule == nil {
			err = fmt.Errorf("%w: OnSchedule of %v: topic %s has no Every, must have one", ErrConflict, task.Key(), topic.Name)
		}
		if err != nil {
			return nil, err
		}
		task.Due = schedule.Next(now, now)
	}
	return tasks, nil
}

// set sets tasks. It repeats the call for tasks whose topic was missing and is made now.
func (c *Center) set(ctx context.Context, tasks []Task) ([]Answer, error) {
	answers, err := c.engine.Set(ctx, tasks)
	if err != nil {
		return nil, err
	}
	var missing []Task
	for i, answer := range answers {
		if errors.Is(answer.Err, ErrNotFound) {
			missing = append(missing, tasks[i])
			c.forget(tasks[i].Topic)
		}
	}
	if len(missing) == 0 {
		return answers, nil
	}
	refused := c.ensure(ctx, missing...)
	var rest []Task
	var again []int
	for i, answer := range answers {
		switch topic := tasks[i].Topic; {
		case !errors.Is(answer.Err, ErrNotFound):
		case refused[topic] != nil:
			answers[i].Err = refused[topic]
		default:
			again, rest = append(again, i), append(rest, tasks[i])
		}
	}
	if len(rest) == 0 {
		return answers, nil
	}
	repeated, err := c.engine.Set(ctx, rest)
	for i, at := range again {
		if err != nil {
			answers[at] = Answer{Err: err}
		} else {
			answers[at] = repeated[i]
		}
	}
	return answers, nil
}

func (c *Center) checkTask(task Task) error {
	err := c.checkOn(task.Topic, task.Check(), task.Callback)
	if err != nil || task.Callback == nil || len(c.cfg.Callers) > 0 {
		return err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.handlers[task.Topic] != nil && !c.topics[task.Topic].Pull {
		return fmt.Errorf("%w: callback of kind %q of a task on topic %s: this node has a handler for the topic and no Callers, must have the Caller, too", ErrArgument, task.Callback.Kind, task.Topic)
	}
	return nil
}

// checkOn adds what the center refuses to the error of a topic, or of a task on it.
func (c *Center) checkOn(topic string, err error, call *Callback) error {
	err = errors.Join(err, checkReserved(topic))
	if err == nil && call != nil {
		err = c.checkCallback(*call)
	}
	return err
}

// checkCallback asks the callback's Caller, if this node has it.
func (c *Center) checkCallback(call Callback) error {
	if caller := c.cfg.Callers[call.Kind]; caller != nil {
		return caller.Check(call)
	}
	if len(c.cfg.Callers) > 0 {
		return fmt.Errorf("%w: callback of kind %q, must be one of %q", ErrArgument, call.Kind, slices.Sorted(maps.Keys(c.cfg.Callers)))
	}
	return nil // a node without Callers can't know
}

// Move changes the action time of a waiting task: Answer.Was is Pending then. A task that runs,
// has ended or is missing stays as it is.
func (c *Center) Move(ctx context.Context, key Key, due time.Time) (Answer, error) {
	return c.moves.one(ctx, Move{Key: key, Due: due})
}

// MoveAfter is Move to a time from now, by the engine's clock.
func (c *Center) MoveAfter(ctx context.Context, key Key, d time.Duration) (Answer, error) {
	return c.moves.one(ctx, Move{Key: key, After: d})
}

// MoveAll is Move for many tasks.
func (c *Center) MoveAll(ctx context.Context, moves []Move) ([]Answer, error) {
	return c.moves.all(ctx, moves)
}

// Remove ends a task in the state Pending, Running or Dead; Answer.Was is this state. The context of
// a running handler ends at once, on every node that hears of it: see engine.Waker. Otherwise it ends at the next try
// to extend the lease: mostly within a third of the lease, and always within half of it unless the engine is slow.
func (c *Center) Remove(ctx context.Context, key Key) (Answer, error) {
	return c.removes.one(ctx, Removal{Key: key})
}

// RemoveAll is Remove for many tasks. A removal with a State or a Version spares a task in any other
// one. For example, a removal with State Dead, or with the Version seen, drops a dead task and
// spares one set anew meanwhile. A removal has had an effect if Answer.Was is Pending, Running
// or Dead and Answer.Version is zero.
func (c *Center) RemoveAll(ctx context.Context, removals []Removal) ([]Answer, error) {
	return c.removes.all(ctx, removals)
}

// Replay makes dead tasks run again, at once, with all their attempts and a new version. It
// counts as a set, so callbacks have another idempotency key. Answer.Was is Dead for each
// replayed task.
func (c *Center) Replay(ctx context.Context, keys []Key) ([]Answer, error) {
	return c.replays.all(ctx, keys)
}

// wake makes the worker and the dispatcher of a topic look again if they would sleep for longer than until
// a task is due.
func (c *Center) wake(key Key, due time.Time) {
	c.tell(key.Topic, func(l *leaser) { l.expect(key, due) })
}

// wakeAll wakes each part of each topic once, for its earliest task. A zero due means none.
func (c *Center) wakeAll(n int, at func(int) (key Key, due time.Time)) {
	type part struct {
		topic  string
		number int
	}
	type task struct {
		key Key
		due time.Time
	}
	first := make(map[part]task)
	for i := range n {
		key, due := at(i)
		if due.IsZero() {
			continue
		}
		p := part{key.Topic, c.partOf(key)}
		if earliest, seen := first[p]; !seen || due.Before(earliest.due) {
			first[p] = task{key, due}
		}
	}
	for _, one := range first {
		c.wake(one.key, one.due)
	}
}
