package timeout

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/heartwheel-go/heartwheel/timeout/engine"
)

// revision is a later look at the tasks of a topic with a new schedule: nodes that did not know of it yet may have had
// tasks wait for times of the schedules before.
type revision struct {
	at     time.Time
	before []string // Topic.Every of before, each once
	every  string   // the present one
}

// isRescheduled reports whether a change of a topic moves waiting tasks.
func isRescheduled(before, every string) bool { return before != "" && every != "" && before != every }

// reviseLater has Run look once more when all nodes know of a change.
func (c *Center) reviseLater(was, topic Topic) {
	c.mu.Lock()
	defer c.mu.Unlock()
	r := c.revisions[topic.Name]
	switch {
	case isRescheduled(was.Every, topic.Every):
		r.before = slices.DeleteFunc(append(r.before, was.Every), func(before string) bool { return before == topic.Every })
		c.revisions[topic.Name] = revision{time.Now().Add(c.cfg.TTL), r.before, topic.Every}
	case r.every != topic.Every:
		delete(c.revisions, topic.Name)
	}
}

// revise looks at the topics whose schedules changed a TTL ago.
func (c *Center) revise(ctx context.Context) {
	c.mu.Lock()
	due := make(map[string]revision)
	for name, r := range c.revisions {
		if !r.at.After(time.Now()) {
			due[name] = r
			delete(c.revisions, name)
		}
	}
	c.mu.Unlock()
	for name, r := range due {
		topic, err := c.readTopic(ctx, name)
		if err == nil { // if another node has changed it since, it may not know of r.every
			_, err = c.reschedule(ctx, topic, append(r.before, r.every)...)
		}
		if err != nil && ctx.Err() == nil {
			c.cfg.Logger.Warn("timeout: tasks may wait for times of an earlier schedule", "topic", name, "err", err)
		}
	}
}

// reschedule moves the tasks of a topic that wait for a time of one of its schedules before, a page at a time. It returns
// how many have moved. A task set or moved by others meanwhile stays as it is.
func (c *Center) reschedule(ctx context.Context, topic Topic, before ...string) (total int, err error) {
	schedule, err := scheduleOf(topic)
	if err != nil || schedule == nil {
		return 0, err
	}
	var schedules []engine.Schedule
	for _, every := range before {
		if s, err := engine.ParseSchedule(every); err == nil && isRescheduled(every, topic.Every) {
			schedules = append(schedules, s)
		}
	}
	query := Query{Topic: topic.Name, State: Pending, Limit: engine.MaxPage, OmitPayload: true}
	for len(schedules) > 0 {
		page, err := c.engine.List(ctx, query)
		var moved int
		if err == nil {
			moved, err = c.reschedulePage(ctx, *schedule, schedules, page.Tasks)
		}
		total += moved
		if err != nil {
			return total, fmt.Errorf("timeout: topic %s is changed, and %d of its tasks wait by the new schedule: %w", topic.Name, total, err)
		}
		if query.Cursor = page.Next; query.Cursor == "" {
			break
		}
	}
	return total, nil
}

func (c *Center) reschedulePage(ctx context.Context, schedule engine.Schedule, before []engine.Schedule, tasks []Task) (moved int, err error) {
	now, err := c.engine.Now(ctx)
	if err != nil {
		return 0, err
	}
	var moves []Move
	for _, task := range tasks {
		waits := task.Calls > 0 && task.Attempts == 0 && task.Due.After(now)
		if waits && slices.ContainsFunc(before, func(s engine.Schedule) bool { return s.Has(task.Due, now) }) {
			if due := schedule.Instead(task.Due, now); !due.Equal(task.Due) {
				moves = append(moves, Move{Key: task.Key(), Due: due, Version: task.Version})
			}
		}
	}
	if len(moves) == 0 {
		return 0, nil
	}
	answers, err := c.engine.Move(ctx, moves)
	if err != nil {
		return 0, err
	}
	for i, answer := range answers {
		switch {
		case answer.Err != nil && err == nil:
			err = answer.Err
		case answer.Was == Pending && answer.Due.Equal(moves[i].Due):
			moved++
		}
	}
	c.wakeAll(len(answers), func(i int) (Key, time.Time) { return moves[i].Key, answers[i].Due })
	return moved, err
}
