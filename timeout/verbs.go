package timeout

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/heartwheel-go/heartwheel/timeout/engine"
)

// Set makes a task wait for its action time, in whatever state it was. The answer has the old state
// and the new version. A missing topic is made, with Config.Topic. With Task.IfAbsent Set
// changes nothing if the task waits, runs or is dead: see Answer.Was.
func (c *Center) Set(ctx context.Context, task Task) (Answer, error) {
	if err := begin(c, c.checkTask, task); err != nil {
		return Answer{}, err
	}
	defer c.calls.Done()
	refused, err := c.ensure(ctx, task)
	if err == nil {
		err = refused[task.Topic]
	}
	if err == nil && task.OnSchedule {
		err = c.schedule(ctx, &task)
	}
	if err != nil {
		return Answer{}, err
	}
	answer, err := c.sets.call(ctx, task)
	if err == nil {
		if answer.Was == Running && !task.IfAbsent {
			c.doubt(task.Key())
		}
		c.meet(task)
		c.wake(task.Key(), answer.Due)
	}
	return answer, err
}

// SetAll is Set for many tasks. If a key occurs several times, the last one stays. If one task
// is invalid, the error wraps ErrArgument, and nothing is done. If a task's topic is missing
// and may not be made, or the task's part of the engine does not answer, Answer.Err of that
// task says so, and the others are set.
func (c *Center) SetAll(ctx context.Context, tasks []Task) ([]Answer, error) {
	if err := begin(c, c.checkTask, tasks...); err != nil {
		return nil, err
	}
	defer c.calls.Done()
	// The engine refuses the tasks of missing topics. Then set finds out why they are missing.
	if _, err := c.ensure(ctx, tasks...); err != nil {
		if names := topicsOf(tasks); len(c.unknown(names)) == len(names) {
			return nil, err
		}
	}
	if slices.ContainsFunc(tasks, func(task Task) bool { return task.OnSchedule }) {
		tasks = slices.Clone(tasks)
		for i := range tasks {
			if err := c.schedule(ctx, &tasks[i]); err != nil {
				return nil, err
			}
		}
	}
	answers, err := c.set(ctx, tasks)
	if err == nil {
		c.doubtAll(engine.EndedBySet(tasks, answers))
		c.meet(tasks...)
		c.wakeAll(len(answers), func(i int) (Key, time.Time) { return tasks[i].Key(), answers[i].Due })
	}
	return answers, err
}

// schedule fills in the action time of a task with OnSchedule.
func (c *Center) schedule(ctx context.Context, task *Task) error {
	if !task.OnSchedule {
		return nil
	}
	topic, err := c.readTopic(ctx, task.Topic)
	if err != nil {
		return err
	}
	schedule, err := scheduleOf(topic)
	if err == nil && schedule == nil {
		err = fmt.Errorf("%w: OnSchedule of %v: topic %s has no Every, must have one", ErrConflict, task.Key(), topic.Name)
	}
	if err != nil {
		return err
	}
	now, err := c.engine.Now(ctx)
	if err == nil {
		task.Due = schedule.Next(now, now)
	}
	return err
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
	refused, unmade := c.ensure(ctx, missing...)
	var rest []Task
	var again []int
	for i, answer := range answers {
		switch topic := tasks[i].Topic; {
		case !errors.Is(answer.Err, ErrNotFound):
		case unmade != nil:
			answers[i].Err = unmade
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

// knows reports whether the topics of all tasks are known.
func (c *Center) knows(tasks []Task) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	for i := range tasks {
		if _, known := c.topics[tasks[i].Topic]; !known {
			return false
		}
	}
	return true
}

// topicsOf returns the topics of tasks, once each.
func topicsOf(tasks []Task) (names []string) {
	seen := make(map[string]bool)
	for _, task := range tasks {
		if !seen[task.Topic] {
			seen[task.Topic] = true
			names = append(names, task.Topic)
		}
	}
	return names
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
	return c.move(ctx, Move{Key: key, Due: due})
}

// MoveAfter is Move to a time from now, by the engine's clock.
func (c *Center) MoveAfter(ctx context.Context, key Key, d time.Duration) (Answer, error) {
	return c.move(ctx, Move{Key: key, After: d})
}

func (c *Center) move(ctx context.Context, move Move) (Answer, error) {
	if err := begin(c, Move.Check, move); err != nil {
		return Answer{}, err
	}
	defer c.calls.Done()
	answer, err := c.moves.call(ctx, move)
	if err == nil {
		c.wake(move.Key, answer.Due)
	}
	return answer, err
}

// MoveAll is Move for many tasks.
func (c *Center) MoveAll(ctx context.Context, moves []Move) ([]Answer, error) {
	if err := begin(c, Move.Check, moves...); err != nil {
		return nil, err
	}
	defer c.calls.Done()
	answers, err := c.engine.Move(ctx, moves)
	if err == nil {
		c.wakeAll(len(answers), func(i int) (Key, time.Time) { return moves[i].Key, answers[i].Due })
	}
	return answers, err
}

// Remove ends a task in the state Pending, Running or Dead; Answer.Was is this state. The context of
// a running handler ends at once, on every node that hears of it: see engine.Waker. Otherwise it ends at the next try
// to extend the lease: mostly within a third of the lease, and always within half of it unless the engine is slow.
func (c *Center) Remove(ctx context.Context, key Key) (Answer, error) {
	removal := Removal{Key: key}
	if err := begin(c, Removal.Check, removal); err != nil {
		return Answer{}, err
	}
	defer c.calls.Done()
	answer, err := c.removes.call(ctx, removal)
	if err == nil && answer.Was == Running && answer.Version == 0 {
		c.doubt(key)
	}
	return answer, err
}

// RemoveAll is Remove for many tasks. A removal with a State or a Version spares a task in any other
// one. For example, a removal with State Dead, or with the Version seen, drops a dead task and
// spares one set anew meanwhile. A removal has had an effect if Answer.Was is Pending, Running
// or Dead and Answer.Version is zero.
func (c *Center) RemoveAll(ctx context.Context, removals []Removal) ([]Answer, error) {
	if err := begin(c, Removal.Check, removals...); err != nil {
		return nil, err
	}
	defer c.calls.Done()
	answers, err := c.engine.Remove(ctx, removals)
	if err == nil {
		c.doubtAll(engine.EndedByRemoval(removals, answers))
	}
	return answers, err
}

// Replay makes dead tasks run again, at once, with all their attempts and a new version. It
// counts as a set, so callbacks have another idempotency key. Answer.Was is Dead for each
// replayed task.
func (c *Center) Replay(ctx context.Context, keys []Key) ([]Answer, error) {
	if err := begin(c, Key.Check, keys...); err != nil {
		return nil, err
	}
	defer c.calls.Done()
	answers, err := c.engine.Replay(ctx, keys)
	if err == nil {
		c.wakeAll(len(answers), func(i int) (Key, time.Time) { return keys[i], answers[i].Due })
	}
	return answers, err
}

// wake makes the worker and the dispatcher of a topic look again if they would sleep for longer than until
// a task is due.
func (c *Center) wake(key Key, due time.Time) {
	for _, l := range c.looksAt(key.Topic) {
		if l != nil {
			l.expect(key, due)
		}
	}
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
		if before, seen := first[p]; !seen || due.Before(before.due) {
			first[p] = task{key, due}
		}
	}
	for _, t := range first {
		c.wake(t.key, t.due)
	}
}
