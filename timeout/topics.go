package timeout

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/heartwheel-go/heartwheel/timeout/engine"
)

// SetTopic is ChangeTopic. It returns the topic as stored.
func (c *Center) SetTopic(ctx context.Context, topic Topic) (Topic, error) {
	change, err := c.changeTopic(ctx, topic, topic.Every != "")
	return change.Topic, err
}

// TopicChange is what Center.ChangeTopic has done.
type TopicChange struct {
	// Topic is the topic as stored, and Was the one before. Was is zero if there was none.
	Topic, Was Topic

	// Rescheduled is how many waiting tasks have another time by a new Topic.Every.
	Rescheduled int
}

// ChangeTopic makes or changes a topic, for all nodes; they know of it within a third of their
// TTL. An existing topic keeps its pause. See Engine.SetTopic for errors.
//
// With another Every, tasks that wait for a time of the schedule before move to one of the new
// schedule, a page of the list at a time. They are those that have run and wait for their next run, and
// not for a retry. A task that has not run yet keeps the time of its set. By a cron expression they wait
// for its next time. By an interval no task waits for longer than that: its next run comes so many
// intervals sooner. If the schedule before is an interval, a time from Again or a move within that
// interval counts as its time.
//
// If ctx ends before all have moved, the error says how many have. The topic is changed, and the others
// run once more at their old time. A node that did not know yet of the change may have had a task wait
// for a time of the schedule before. So Run looks once more after the TTL, if this center runs.
func (c *Center) ChangeTopic(ctx context.Context, topic Topic) (TopicChange, error) {
	return c.changeTopic(ctx, topic, true)
}

// ChangeTopicIf is ChangeTopic for a topic that still is as was, as another call has returned it. Otherwise it changes nothing,
// and the error is ErrChanged: read the topic again. So of two changes at the same time, on different nodes, none is lost. The
// pause changes, too. A zero was means that there must be no such topic.
func (c *Center) ChangeTopicIf(ctx context.Context, was, topic Topic) (TopicChange, error) {
	if !topic.PausedUntil.IsZero() && !topic.PausedUntil.Equal(was.PausedUntil) {
		if err := c.checkUntil(ctx, topic.Name, topic.PausedUntil); err != nil {
			return TopicChange{}, err
		}
	}
	return c.changeTopic(ctx, topic, false, was)
}

// changeTopic is ChangeTopic, or with was ChangeTopicIf. If it neither has was nor looks, Was is zero, and no task moves.
func (c *Center) changeTopic(ctx context.Context, topic Topic, look bool, was ...Topic) (TopicChange, error) {
	return checked(c, c.checkTopic, []Topic{topic}, func() (change TopicChange, err error) {
		if len(was) > 0 {
			change.Was = was[0]
		} else if look {
			if change.Was, err = c.readTopic(ctx, topic.Name); err != nil && !errors.Is(err, ErrNotFound) {
				return TopicChange{}, err
			}
		}
		if change.Topic, err = c.engine.SetTopic(ctx, topic, false, was...); err != nil {
			return TopicChange{}, err
		}
		c.learn(change.Topic)
		c.look()
		c.reviseLater(change.Was, change.Topic)
		change.Rescheduled, err = c.reschedule(ctx, change.Topic, change.Was.Every)
		return change, err
	})
}

func (c *Center) checkTopic(topic Topic) error {
	return c.checkOn(topic.Name, topic.Check(), topic.Callback)
}

// Now returns the time by the engine's clock.
func (c *Center) Now(ctx context.Context) (time.Time, error) {
	return during(c, func() (time.Time, error) { return c.engine.Now(ctx) })
}

// checkReserved refuses the topic of package sharded: a task there could pass for the marker of a shard, and no
// program would open the engine again.
func checkReserved(topic string) error {
	if topic == engine.Reserved {
		return fmt.Errorf("%w: topic %s is reserved for the markers of shards", ErrArgument, topic)
	}
	return nil
}

// Topics returns all topics, by name.
func (c *Center) Topics(ctx context.Context) ([]Topic, error) {
	return during(c, func() ([]Topic, error) { return c.engine.Topics(ctx) })
}

// Topic returns a topic, or ErrNotFound.
func (c *Center) Topic(ctx context.Context, name string) (Topic, error) {
	return during(c, func() (Topic, error) { return c.readTopic(ctx, name) })
}

// readTopic is Topic, during a call.
func (c *Center) readTopic(ctx context.Context, name string) (Topic, error) {
	topics, err := c.engine.Topics(ctx)
	if err != nil {
		return Topic{}, err
	}
	return topicOf(topics, name)
}

// topicOf returns the topic of that name, or ErrNotFound.
func topicOf(topics []Topic, name string) (Topic, error) {
	for _, topic := range topics {
		if topic.Name == name {
			return topic, nil
		}
	}
	return Topic{}, fmt.Errorf("%w: topic %q", ErrNotFound, name)
}

// Pause makes a topic accept tasks and run none, on all nodes. After it has returned no task is
// leased; running tasks go on. Resume ends the pause.
func (c *Center) Pause(ctx context.Context, topic string) error {
	return c.pause(ctx, topic, true, time.Time{})
}

// PauseUntil is Pause with an end: at that time by the engine's clock, tasks run again, even if nobody calls anything. The time
// must be later than the present. The last call of Pause, PauseUntil or Resume counts.
func (c *Center) PauseUntil(ctx context.Context, topic string, until time.Time) error {
	if err := c.checkUntil(ctx, topic, until); err != nil {
		return err
	}
	return c.pause(ctx, topic, true, until)
}

// checkUntil returns an error if no pause of a topic can end then.
func (c *Center) checkUntil(ctx context.Context, topic string, until time.Time) error {
	now, err := c.Now(ctx)
	if err != nil {
		return err
	}
	if until.After(now) {
		return engine.CheckDue(until)
	}
	return fmt.Errorf("%w: pause of topic %s until %v, must be after the engine's present time %v", ErrArgument, topic, until, now)
}

// Resume ends a Pause.
func (c *Center) Resume(ctx context.Context, topic string) error {
	return c.pause(ctx, topic, false, time.Time{})
}

func (c *Center) pause(ctx context.Context, name string, paused bool, until time.Time) error {
	_, err := checked(c, engine.CheckTopic, []string{name}, func() (Topic, error) {
		kept, err := c.engine.Pause(ctx, name, paused, until)
		if err == nil {
			c.learn(kept)
			c.look()
		}
		return kept, err
	})
	return err
}

// DropTopic ends a topic and everything in it. The contexts of running handlers end as after Remove.
func (c *Center) DropTopic(ctx context.Context, name string) error {
	_, err := during(c, func() (any, error) {
		err := c.engine.DropTopic(ctx, name)
		c.doubt(Key{Topic: name})
		c.forget(name)
		c.look()
		return nil, err
	})
	return err
}

// Ready returns nil if the engine stores new tasks and returns the present ones. The error wraps
// ErrFull if the engine has no room: its present tasks run all the same. Ready can be called every
// second.
func (c *Center) Ready(ctx context.Context) error {
	_, err := during(c, func() (any, error) { return nil, c.engine.Ready(ctx) })
	return err
}

// Count counts the tasks of a topic. It returns ErrNotFound if there is no such topic. Counts.Lag includes the tasks
// that this node has put off since it can't run them now.
func (c *Center) Count(ctx context.Context, topic string) (Counts, error) {
	return during(c, func() (Counts, error) {
		counts, err := c.engine.Count(ctx, topic)
		c.mu.Lock()
		w := c.workers[topic]
		c.mu.Unlock()
		if err == nil && w != nil {
			counts.Lag = max(counts.Lag, w.lag(time.Now()))
		}
		return counts, err
	})
}

// lookUp is Topic, but first looks at the topics known to this node.
func (c *Center) lookUp(ctx context.Context, name string) (Topic, error) {
	c.mu.Lock()
	topic, known := c.topics[name]
	known = known && c.running // only Run reads them again
	c.mu.Unlock()
	if known {
		return topic, nil
	}
	return c.readTopic(ctx, name)
}

// ensure makes the missing topics of tasks, as far as Config.MaxTopics lets tasks do that. It returns
// why the others are refused, by name.
func (c *Center) ensure(ctx context.Context, tasks ...Task) (refused map[string]error) {
	if len(c.unknown(tasks)) == 0 {
		return nil
	}
	select { // one goroutine at a time counts and makes topics
	case c.making <- struct{}{}:
		defer func() { <-c.making }()
	case <-ctx.Done(): // the engine says so
	}
	missing := c.unknown(tasks) // somebody else may have made some
	if len(missing) == 0 {
		return nil
	}
	refused = c.refusals(ctx, missing)
	defer c.look() // once, since each look is at all topics
	var err error
	for _, name := range missing {
		if refused[name] != nil {
			continue
		}
		if err == nil {
			_, err = c.makeTopic(ctx, name)
		}
		if refused[name] = err; errors.Is(err, ErrFull) { // no room for it; the others are not at fault
			err = nil
		}
	}
	return refused
}

// unknown returns the topics of tasks that are unknown to this node, once each.
func (c *Center) unknown(tasks []Task) (missing []string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	var seen map[string]bool
	for i := range tasks {
		name := tasks[i].Topic
		if _, known := c.topics[name]; known || seen[name] {
			continue
		}
		if seen == nil {
			seen = make(map[string]bool)
		}
		seen[name] = true
		missing = append(missing, name)
	}
	return missing
}

// refusals returns, by name, why tasks may not make some of the missing topics. If there is
// room for some, the first ones are made.
func (c *Center) refusals(ctx context.Context, missing []string) map[string]error {
	there, err := c.engine.Topics(ctx)
	isThere := make(map[string]bool, len(there))
	for _, topic := range there {
		isThere[topic.Name] = true
	}
	refused := make(map[string]error)
	limit, n := c.cfg.MaxTopics, len(there)
	for _, name := range missing {
		switch {
		case err != nil:
			refused[name] = err
		case isThere[name]:
		case limit < 0:
			refused[name] = fmt.Errorf("%w: topic %q, and tasks make none (MaxTopics %d): set it first", ErrNotFound, name, limit)
		case n >= limit:
			refused[name] = fmt.Errorf("%w: with topic %q there would be %d topics, must be at most %d (MaxTopics) for a task to make one", ErrFull, name, n+1, limit)
		default:
			n++
		}
	}
	return refused
}

// makeTopic returns a topic, and makes it if it is missing.
func (c *Center) makeTopic(ctx context.Context, name string) (Topic, error) {
	topic := c.cfg.Topic
	topic.Name = name
	topic, err := c.engine.SetTopic(ctx, topic, true)
	if err == nil {
		c.learn(topic)
	}
	return topic, err
}

func (c *Center) learn(topic Topic) {
	c.mu.Lock()
	c.topics[topic.Name], c.learned[topic.Name] = topic, topic
	c.mu.Unlock()
}

func (c *Center) forget(topic string) {
	c.mu.Lock()
	delete(c.topics, topic)
	delete(c.learned, topic)
	c.mu.Unlock()
}
