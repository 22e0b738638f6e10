package timeout

import (
	"context"
	"maps"
	"slices"
	"time"

	"github.com/heartwheel-go/heartwheel/timeout/engine"
)

// Unserved returns, by name, the topics with due tasks that wait in vain for a node to run them. It takes Config.TTL to
// tell. There are two causes:
//
// The topic has no callback, and no live node has a handler, or the node with it lacks the Caller of the callback. Tasks
// with callbacks of their own run all the same. If no node has Config.All, only the leader knows.
//
// A task has a callback of its own, and the node that its slot belongs to lacks the Caller for it, such as a node with a
// handler and no Config.Callers. Another node with the Caller does not run it. Only the node that lacks it knows: give
// each node that serves the topic the Callers of all its callbacks. The log of another node warns at once when it sets
// such a task and knows of the first node.
//
// A paused topic, and one with Topic.Pull, is never among them.
func (c *Center) Unserved() []string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.listUnserved(time.Now())
}

// listUnserved is Unserved. c.mu must be held.
func (c *Center) listUnserved(now time.Time) (names []string) {
	for name, w := range c.workers {
		if stranded, lacks := w.unserved(now, c.cfg.TTL); stranded && !c.view.Runs(name) || lacks {
			names = append(names, name)
		}
	}
	for name := range c.lonely {
		if _, served := c.workers[name]; !served && !c.view.Runs(name) {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}

// setBare notes the nodes that make no callbacks. c.mu must be held.
func (c *Center) setBare(view engine.View) {
	c.bare = make(map[string]string)
	for _, node := range view.Nodes {
		if slices.Contains(node.Topics, engine.HandlersOnly) {
			for _, topic := range node.Topics {
				c.bare[topic] = node.Name
			}
		}
	}
}

// takeBare returns a node that has a topic's handler and makes no callbacks, once for each view, or an empty string.
// c.mu must be held.
func (c *Center) takeBare(topic string) string {
	node := c.bare[topic]
	if c.topics[topic].Pull {
		return ""
	}
	delete(c.bare, topic)
	return node
}

// unserved reports two things. stranded: tasks have been due for that long, and the node can't run them. lacks: the same of tasks
// with callbacks of their own, which it can't make.
func (w *worker) unserved(now time.Time, wait time.Duration) (stranded, lacks bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	h := &w.hold
	return h.stranded.lasts(now, wait) && !w.topic.Paused, h.lacking.lasts(now, wait) && !w.topic.Paused && !w.topic.Pull
}

// warnUnserved logs each topic that becomes unserved, once.
func (c *Center) warnUnserved() {
	c.mu.Lock()
	now := c.listUnserved(time.Now())
	before := c.unserved
	c.unserved = now
	c.mu.Unlock()
	for _, name := range now {
		if !slices.Contains(before, name) {
			c.cfg.Logger.Warn("timeout: a topic has due tasks that no node can run: it has no callback, and no node has a handler for it, or tasks have callbacks of their own, and this node lacks the Caller", "topic", name)
		}
	}
	for _, name := range before {
		if !slices.Contains(now, name) {
			c.cfg.Logger.Info("timeout: no due task of a topic waits in vain any more for a handler or a callback", "topic", name)
		}
	}
}

// countLonely finds the topics with due tasks that no node serves. The leader calls it.
func (c *Center) countLonely(ctx context.Context) {
	c.mu.Lock()
	view := c.view
	topics := slices.DeleteFunc(slices.Collect(maps.Values(c.topics)), func(t Topic) bool { return c.workers[t.Name] != nil })
	c.mu.Unlock()
	lonely := make(map[string]bool)
	for _, topic := range topics {
		if topic.Pull || topic.Paused || view.Serves(topic.Name) {
			continue
		}
		ctx, cancel := context.WithTimeout(ctx, engineTimeout)
		counts, err := c.engine.Count(ctx, topic.Name)
		cancel()
		if err == nil && counts.Due > 0 && counts.Lag >= c.cfg.TTL {
			lonely[topic.Name] = true
		}
	}
	c.setLonely(lonely)
}

func (c *Center) setLonely(lonely map[string]bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.lonely = lonely
}

// announced returns the topics that this node serves, in order. c.mu must be held.
func (c *Center) announced() []string {
	names := make([]string, 0, len(c.workers)+1)
	if c.cfg.All && len(c.cfg.Callers) > 0 {
		names = append(names, engine.Callbacks)
	}
	for name := range c.workers {
		if c.canRun(c.topics[name], c.handlers[name]) {
			names = append(names, name)
		}
	}
	if len(c.cfg.Callers) == 0 && len(names) > 0 {
		names = append(names, engine.HandlersOnly)
	}
	slices.Sort(names)
	return names
}
