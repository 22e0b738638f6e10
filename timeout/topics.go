package timeout

import (
	"context"
	"fmt"
)

// SetTopic makes or changes a topic, for all nodes; they know of it within a third of their
// TTL. It returns what is kept: a topic that is there is paused after it if it was before. See
// Engine.SetTopic for errors.
func (c *Center) SetTopic(ctx context.Context, topic Topic) (Topic, error) {
	if err := c.open(); err != nil {
		return Topic{}, err
	}
	if err := topic.Check(); err != nil {
		return Topic{}, err
	}
	if topic.Callback != nil {
		if err := c.checkCallback(*topic.Callback); err != nil {
			return Topic{}, err
		}
	}
	kept, err := c.engine.SetTopic(ctx, topic, false)
	if err == nil {
		c.learn(kept)
	}
	return kept, err
}

// Topics returns all topics, by name.
func (c *Center) Topics(ctx context.Context) ([]Topic, error) {
	if err := c.open(); err != nil {
		return nil, err
	}
	return c.engine.Topics(ctx)
}

// Topic returns a topic, or ErrNotFound.
func (c *Center) Topic(ctx context.Context, name string) (Topic, error) {
	topics, err := c.Topics(ctx)
	if err != nil {
		return Topic{}, err
	}
	for _, topic := range topics {
		if topic.Name == name {
			return topic, nil
		}
	}
	return Topic{}, fmt.Errorf("%w: topic %q", ErrNotFound, name)
}

// Pause has a topic accept tasks and run none, on all nodes: no task is leased after it has
// returned, and those that run go on. Resume ends that.
func (c *Center) Pause(ctx context.Context, topic string) error { return c.pause(ctx, topic, true) }

// Resume is the other half of Pause.
func (c *Center) Resume(ctx context.Context, topic string) error { return c.pause(ctx, topic, false) }

func (c *Center) pause(ctx context.Context, name string, paused bool) error {
	if err := c.open(); err != nil {
		return err
	}
	if err := CheckTopic(name); err != nil {
		return err
	}
	kept, err := c.engine.Pause(ctx, name, paused)
	if err == nil {
		c.learn(kept)
	}
	return err
}

// DropTopic ends a topic and all that is in it.
func (c *Center) DropTopic(ctx context.Context, name string) error {
	if err := c.open(); err != nil {
		return err
	}
	err := c.engine.DropTopic(ctx, name)
	c.forget(name)
	return err
}

// Count counts the tasks of a topic. It is ErrNotFound where there is no such topic.
func (c *Center) Count(ctx context.Context, topic string) (Counts, error) {
	if err := c.open(); err != nil {
		return Counts{}, err
	}
	return c.engine.Count(ctx, topic)
}

// lookUp is Topic for one that this node may know, or ErrNotFound.
func (c *Center) lookUp(ctx context.Context, name string) (Topic, error) {
	c.mu.Lock()
	topic, known := c.topics[name]
	c.mu.Unlock()
	if known {
		return topic, nil
	}
	return c.Topic(ctx, name)
}

// ensure returns a topic, and makes it where it is not there.
func (c *Center) ensure(ctx context.Context, name string) (Topic, error) {
	c.mu.Lock()
	topic, known := c.topics[name]
	c.mu.Unlock()
	if known {
		return topic, nil
	}
	topic = c.cfg.Topic
	topic.Name = name
	topic, err := c.engine.SetTopic(ctx, topic, true)
	if err == nil {
		c.learn(topic)
	}
	return topic, err
}

func (c *Center) learn(topic Topic) {
	c.mu.Lock()
	c.topics[topic.Name] = topic
	c.mu.Unlock()
	c.look()
}

func (c *Center) forget(topic string) {
	c.mu.Lock()
	delete(c.topics, topic)
	c.mu.Unlock()
	c.look()
}
