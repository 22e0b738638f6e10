package redis

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/heartwheel-go/heartwheel/internal/redisrun"
	"github.com/heartwheel-go/heartwheel/timeout/engine"
)

const (
	// batchTasks is how many tasks a script handles: Redis does nothing else meanwhile.
	batchTasks = 256

	// batchBytes is about how much is sent to one.
	batchBytes = 1 << 20
)

// Set is engine.Engine's. If Redis is out of memory, the Err of answers wraps ErrFull.
func (e *Engine) Set(ctx context.Context, tasks []engine.Task) ([]engine.Answer, error) {
	answers := make([]engine.Answer, len(tasks))
	bodies := make([]string, len(tasks))
	for i := range tasks {
		bodies[i] = bodyOf(&tasks[i])
	}
	verb := verb{
		count: len(tasks),
		key:   func(i int) engine.Key { return tasks[i].Key() },
		size:  func(i int) int { return len(bodies[i]) },
		begin: func(at *partition, count int) *invocation {
			return invoke(scriptSet, at, append(make([]any, 0, 4+3*count), e.channel, wakePrefix(at), "", "")...)
		},
		add: func(c *invocation, i int) {
			at := ask(tasks[i].Due, tasks[i].After)
			if !tasks[i].KeepDue { // set.lua knows its time
				soonest(&c.Args[3], at)
			}
			c.Args = append(c.Args, tasks[i].ID, at, bodies[i])
		},
		ready: func(c *invocation) { c.Args[2] = overFlags(tasks, c.tasks) },
		take: func(l *layout, c *invocation) error {
			return takeDue(l, c, answers, true, func(i int, now int64) int64 { return tasks[i].DueAt(now) })
		},
	}
	lost := e.each(ctx, verb)
	for i, err := range lost {
		if errors.Is(err, engine.ErrNotFound) || errors.Is(err, engine.ErrFull) {
			answers[i].Err = err
			delete(lost, i)
		}
	}
	return tell(answers, lost)
}

// overFlags has a byte for each task: 1 with IfAbsent, 2 with KeepDue. It is empty without any.
func overFlags(tasks []engine.Task, which []int) string {
	var flags []byte
	for j, i := range which {
		if !tasks[i].IfAbsent && !tasks[i].KeepDue {
			continue
		}
		if flags == nil {
			flags = make([]byte, len(which))
		}
		if flags[j] = 2; tasks[i].IfAbsent {
			flags[j] = 1
		}
	}
	return string(flags)
}

// soonest lowers the argument first of set and move to an action time, unless that is relative.
func soonest(first *any, at int64) {
	if before, ok := (*first).(int64); at >= 0 && (!ok || at < before) {
		*first = at
	}
}

// takeDue reads the answer of set or move. due returns the new time of a task, but for those in the answer that have kept
// theirs. Move changes only pending ones, so its all is false.
func takeDue(l *layout, c *invocation, answers []engine.Answer, all bool, due func(i int, now int64) int64) error {
	if len(c.Answer) < 4 {
		return fmt.Errorf("timeout/redis: a script has answered with %d parts, must be 4", len(c.Answer))
	}
	now, version, was := integer(c.Answer[0]), integer(c.Answer[1]), text(c.Answer[2])
	first := int64(-1)
	for j, i := range c.tasks {
		if j < len(was) {
			answers[i].Was = engine.State(was[j] - '0')
		}
		if !all && answers[i].Was != engine.Pending {
			continue
		}
		at := due(i, now)
		answers[i].Version, answers[i].Due = version, time.UnixMilli(at)
		if first < 0 || at < first {
			first = at
		}
	}
	for _, entry := range list(c.Answer[3]) {
		kept := list(entry)
		answer, at := &answers[c.tasks[integer(kept[0])]], integer(kept[2])
		answer.Version, answer.Due = number7(text(kept[1])), time.UnixMilli(at)
		if answer.Was == engine.Running { // it may be due
			first = min(first, at)
		}
	}
	if first >= 0 {
		l.due.set(c.at.part, first)
	}
	return nil
}

// Move is engine.Engine's.
func (e *Engine) Move(ctx context.Context, moves []engine.Move) ([]engine.Answer, error) {
	answers := make([]engine.Answer, len(moves))
	return tell(answers, e.each(ctx, verb{
		count: len(moves),
		key:   func(i int) engine.Key { return moves[i].Key },
		empty: true,
		begin: func(at *partition, _ int) *invocation {
			return invoke(scriptMove, at, e.channel, wakePrefix(at), "", "")
		},
		ready: func(c *invocation) {
			c.Args[3] = onlyAs(c.tasks, func(i int) (engine.State, int64) { return engine.None, moves[i].Version })
		},
		add: func(c *invocation, i int) {
			at := ask(moves[i].Due, moves[i].After)
			soonest(&c.Args[2], at)
			c.Args = append(c.Args, moves[i].ID, at)
		},
		take: func(l *layout, c *invocation) error {
			return takeDue(l, c, answers, false, func(i int, now int64) int64 { return moves[i].DueAt(now) })
		},
	}))
}

// Remove is engine.Engine's.
func (e *Engine) Remove(ctx context.Context, removals []engine.Removal) ([]engine.Answer, error) {
	answers := make([]engine.Answer, len(removals))
	v := e.changing(scriptRemove, false, answers, func(i int) engine.Key { return removals[i].Key }, func(c *invocation, i int) {
		c.Args = append(c.Args, removals[i].ID)
	})
	v.begin = func(at *partition, _ int) *invocation { return invoke(scriptRemove, at, e.channel, wakePrefix(at), "") }
	v.ready = func(c *invocation) {
		c.Args[2] = onlyAs(c.tasks, func(i int) (engine.State, int64) { return removals[i].State, removals[i].Version })
	}
	return tell(answers, e.each(ctx, v))
}

// onlyAs has for each task a byte with the wanted state and seven with the wanted version. It is
// empty if nothing is wanted.
func onlyAs(which []int, wanted func(i int) (engine.State, int64)) string {
	var all []byte
	for j, i := range which {
		if state, version := wanted(i); state != engine.None || version != 0 {
			if all == nil {
				all = make([]byte, 8*len(which))
			}
			binary.BigEndian.PutUint64(all[8*j:], uint64(version))
			all[8*j] = byte(state)
		}
	}
	return string(all)
}

// Replay is engine.Engine's.
func (e *Engine) Replay(ctx context.Context, keys []engine.Key) ([]engine.Answer, error) {
	answers := make([]engine.Answer, len(keys))
	return tell(answers, e.each(ctx, e.changing(scriptReplay, true, answers, func(i int) engine.Key { return keys[i] }, func(c *invocation, i int) {
		c.Args = append(c.Args, keys[i].ID)
	})))
}

// changing is what Remove and Replay have in common.
func (e *Engine) changing(s *redisrun.Script, wakes bool, answers []engine.Answer, key func(int) engine.Key, add func(*invocation, int)) verb {
	return verb{
		count: len(answers),
		key:   key,
		empty: true,
		begin: func(at *partition, _ int) *invocation { return invoke(s, at, e.channel, wakePrefix(at)) },
		add:   add,
		take: func(l *layout, c *invocation) error {
			for j, i := range c.tasks {
				found := list(list(c.Answer[1])[j])
				answers[i].Was = engine.State(integer(found[0]))
				if len(found) == 3 {
					due := integer(found[2])
					answers[i].Version, answers[i].Due = number7(text(found[1])), time.UnixMilli(due)
					if wakes {
						l.due.set(c.at.part, due)
					}
				}
			}
			return nil
		},
	}
}

// Get is engine.Engine's. If some partitions fail and others answer, the error wraps ErrPartial.
func (e *Engine) Get(ctx context.Context, keys []engine.Key) ([]engine.Task, error) {
	tasks := make([]engine.Task, len(keys))
	for i, key := range keys {
		tasks[i].Topic, tasks[i].ID = key.Topic, key.ID
	}
	return tellPartly(tasks, e.each(ctx, verb{
		count: len(keys),
		empty: true,
		key:   func(i int) engine.Key { return keys[i] },
		size:  func(int) int { return batchBytes / 64 }, // nobody knows how large they are
		begin: func(at *partition, _ int) *invocation { return invoke(scriptGet, at) },
		add:   func(c *invocation, i int) { c.Args = append(c.Args, keys[i].ID) },
		take: func(_ *layout, c *invocation) error {
			states, scores, bodies, records := list(c.Answer[0]), list(c.Answer[1]), list(c.Answer[2]), list(c.Answer[3])
			for j, i := range c.tasks {
				state := engine.State(integer(states[j]))
				if state == engine.None {
					continue
				}
				tasks[i].State = state
				if err := complete(&tasks[i], text(bodies[j]), text(records[j]), text(scores[j])); err != nil {
					return err
				}
			}
			return nil
		},
	}))
}

// verb is something to be done to tasks, partition by partition.
type verb struct {
	count int
	key   func(i int) engine.Key
	empty bool                                       // a missing topic has no tasks and is no error
	size  func(i int) int                            // bytes, if not nil
	begin func(at *partition, count int) *invocation // of at most so many tasks of a partition
	add   func(c *invocation, i int)                 // one more task
	ready func(c *invocation)                        // after the last task, if not nil
	take  func(l *layout, c *invocation) error       // the answer
}

// each does a verb, one after the other for tasks of the same key. It returns the errors of the
// tasks without an answer, by their indices.
func (e *Engine) each(ctx context.Context, v verb) (lost losses) {
	for _, round := range v.rounds() {
		for topic, tasks := range round {
			e.eachOf(ctx, topic, tasks, v, &lost)
		}
	}
	return lost
}

// rounds returns by topic what is done at the same time: no key twice.
func (v verb) rounds() []map[string][]int {
	seen := make(map[engine.Key]int, v.count)
	var rounds []map[string][]int
	for i := range v.count {
		key := v.key(i)
		round := seen[key]
		seen[key] = round + 1
		if round == len(rounds) {
			rounds = append(rounds, make(map[string][]int))
		}
		rounds[round][key.Topic] = append(rounds[round][key.Topic], i)
	}
	return rounds
}

// eachOf does a verb to tasks of one topic, and again to tasks of partitions that have refused. It adds
// the failures to lost.
func (e *Engine) eachOf(ctx context.Context, topic string, tasks []int, v verb, lost *losses) {
	err := e.using(ctx, topic, func(l *layout) error {
		calls := v.calls(l, tasks)
		_ = e.run(ctx, calls) // each call has an error of its own
		tasks = tasks[:0:0]
		var refused *invocation
		for _, c := range calls {
			err := c.Err
			if err == nil && c.Status != "" {
				refused = c
				tasks = append(tasks, c.tasks...)
				continue
			}
			if err == nil {
				err = v.take(l, c)
			}
			if err != nil {
				lost.add(c.tasks, err)
			}
		}
		if refused != nil {
			return e.mend(ctx, l, refused)
		}
		return nil
	})
	if err != nil && (!v.empty || !errors.Is(err, engine.ErrNotFound)) {
		lost.add(tasks, err)
	}
}

// calls returns the scripts for tasks, of bounded size.
func (v verb) calls(l *layout, tasks []int) []*invocation {
	parts := make([]int, len(tasks))
	left := make([]int, len(l.partitions))
	for j, i := range tasks {
		parts[j] = l.partition(v.key(i).ID).part
		left[parts[j]]++
	}
	open := make([]*invocation, len(l.partitions))
	var calls []*invocation
	for j, i := range tasks {
		part, size := parts[j], 0
		if v.size != nil {
			size = v.size(i)
		}
		c := open[part]
		if c == nil || len(c.tasks) == batchTasks || c.Size+size > batchBytes {
			count := min(left[part], batchTasks)
			c = v.begin(l.partitions[part], count)
			c.tasks = make([]int, 0, count)
			open[part] = c
			calls = append(calls, c)
		}
		c.tasks = append(c.tasks, i)
		c.Size += size
		left[part]--
		v.add(c, i)
	}
	if v.ready != nil {
		for _, c := range calls {
			v.ready(c)
		}
	}
	return calls
}

// tries is how many times a topic is read again because a partition has refused.
const tries = 50

// using calls do with a topic, and again as long as do returns stale.
func (e *Engine) using(ctx context.Context, topic string, do func(*layout) error) error {
	var last *layout
	for attempt := 0; ; attempt++ {
		l, err := e.layout(ctx, topic, last)
		if err != nil {
			return err
		}
		err = do(l)
		if !errors.Is(err, errStale) {
			return err
		}
		if attempt == tries {
			return changing(topic, attempt)
		}
		last = l
		if err := redisrun.Pause(ctx, attempt); err != nil {
			return err
		}
	}
}

// wakePrefix is a message of the channel up to the time: see Wake.
func wakePrefix(at *partition) string {
	return at.topic + "\n" + strconv.FormatInt(at.gen, 36) + "\n" + strconv.Itoa(at.part) + "\n"
}
