package timeout

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/heartwheel-go/heartwheel/timeout/engine"
)

// leaveTimeout is the time limit for leaving the members when Run ends.
const leaveTimeout = 3 * time.Second

// lookShare limits the share of time spent on looks at all topics and nodes. After a look, Run
// waits lookShare times as long as the look took, or until the next heartbeat.
const lookShare = 5

// With little to do, Maintain takes at most the maintainShare-th part of the time, but comes after maintainMost
// at the latest.
const (
	maintainShare = 1000
	maintainMost  = 15 * time.Second
)

// net is the longest sleep of a worker while the engine tells of new tasks, unless Config.Poll is
// longer. It bounds the lateness of an untold task.
const net = 5 * time.Second

// Run serves the topics with a handler or a callback until ctx ends; see Config.All. It keeps
// asking an unreachable engine. When ctx ends, Run leases nothing more and hands back the tasks
// not begun. It waits for handlers for Config.Grace, then cancels their contexts and hands back
// their tasks. It returns nil, or an error with the number of handlers still running; after
// Close it returns ErrClosed. A second call at the same time is an error.
func (c *Center) Run(ctx context.Context) error {
	if err := c.start(); err != nil {
		return err
	}
	run := rand.Text()
	other := duplicate{keep: 2 * c.cfg.TTL}
	background, cancel := context.WithCancel(context.WithoutCancel(ctx))
	var helpers sync.WaitGroup
	helpers.Go(func() { c.maintain(background) })
	if waker, ok := c.engine.(engine.Waker); ok {
		helpers.Go(func() {
			c.follow(background, "wake-ups", func(ctx context.Context) error {
				defer c.hear(false)
				return waker.Wake(ctx, c.woken, c.doubt)
			})
		})
	}
	helpers.Go(func() { c.peek(background) })
	if watcher, ok := c.members.(engine.Watcher); ok {
		helpers.Go(func() {
			c.follow(background, "members", func(ctx context.Context) error { return watcher.Watch(ctx, c.look) })
		})
	}
	helpers.Go(func() { c.search(background) })

	topics := topicsLook{helpers: &helpers, background: background}
	heartbeat := time.NewTicker((c.cfg.TTL + 2) / 3) // rounded up: three of them wait long enough for new slots, see worker.assign
	defer heartbeat.Stop()
	for ctx.Err() == nil {
		began := time.Now()
		c.refresh(ctx, run, &other, &topics)
		ended := time.Now()
		next := ended.Add(lookShare * ended.Sub(began))
		select {
		case <-heartbeat.C:
			continue
		case <-c.changed:
		case <-ctx.Done():
		}
		select { // one look for several topics made one after another
		case <-time.After(time.Until(next)):
		case <-heartbeat.C:
		case <-ctx.Done():
		}
	}
	c.mu.Lock()
	c.endPulls(ErrStopping)
	c.mu.Unlock()
	cancel()
	helpers.Wait()
	return c.stop()
}

func (c *Center) start() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case c.closed:
		return ErrClosed
	case c.running:
		return errors.New("timeout: Run is running already")
	}
	c.running = true
	if c.pulling.Err() != nil { // by an earlier Run
		c.pulling, c.endPulls = context.WithCancelCause(context.Background())
	}
	return nil
}

// refresh reads the topics and the nodes. It gives each topic served by this node a worker with
// its slots.
func (c *Center) refresh(ctx context.Context, run string, other *duplicate, topics *topicsLook) {
	// Perhaps one server of several is away, and this node still serves the tasks of the others.
	// But with Config.Members it must not stay a member while its engine is out of reach.
	if err := topics.take(ctx, c); err != nil && c.cfg.Members != nil {
		return
	}
	c.mu.Lock()
	node := engine.Node{Name: c.cfg.Node, Run: run, Topics: c.announced()}
	c.mu.Unlock()
	within, cancel := context.WithTimeout(ctx, max(c.cfg.TTL, time.Second)/2) // leaves time for another heartbeat
	began := time.Now()
	view, err := c.members.Heartbeat(within, node, c.cfg.TTL)
	cancel()
	if err != nil {
		if ctx.Err() == nil {
			c.cfg.Logger.Warn("timeout: members can't be reached, and the last view is kept", "err", err)
		}
		c.deal(false, false)
		return
	}
	now := time.Now()
	switch other.met(view.Other, now) {
	case duplicateRuns:
		c.cfg.Logger.Error("timeout: another running node has this node's name, so both share the slots of one: give each process a name of its own (timeoutd: -node)",
			"node", c.cfg.Node, "run", run, "other", other.run, "for", now.Sub(other.since).Round(time.Millisecond))
	case duplicateGone:
		c.cfg.Logger.Info("timeout: no other node has this node's name any more", "node", c.cfg.Node)
	}
	view.Other = other.run
	c.adopt(view, began)
	c.warnUnserved()
}

// topicsLook is a look at the topics beside the heartbeats: a slow engine must not hold these up.
type topicsLook struct {
	helpers    *sync.WaitGroup
	background context.Context //nolint:containedctx // of Run's helpers
	done       chan error      // nil if no look is under way
	err        error           // of the last one
}

// take begins a look unless one is under way, and waits for it a little. Later its end makes Run go on. It returns the error
// of the last one.
func (t *topicsLook) take(ctx context.Context, c *Center) error {
	wait := c.cfg.TTL / 50
	if t.done == nil {
		began, done := time.Now(), make(chan error, 1)
		t.done = done
		t.helpers.Go(func() {
			asking, asked := context.WithTimeout(t.background, max(c.cfg.TTL, time.Second))
			defer asked()
			done <- c.refreshTopics(asking)
			if time.Since(began) >= wait {
				c.look()
			}
		})
	}
	select {
	case t.err = <-t.done:
		t.done = nil
		if t.err != nil && ctx.Err() == nil {
			c.cfg.Logger.Warn("timeout: topics can't be read", "err", t.err)
		}
	case <-time.After(wait):
	case <-ctx.Done():
	}
	return t.err
}

// refreshTopics starts and ends workers.
func (c *Center) refreshTopics(ctx context.Context) error {
	c.mu.Lock()
	clear(c.learned)
	c.mu.Unlock()
	topics, err := c.engine.Topics(ctx)
	if err != nil {
		return err
	}
	c.mu.Lock()
	handled := slices.Collect(maps.Keys(c.handlers)) // after the answer: a topic without a handler may be dropped
	c.mu.Unlock()
	known := make(map[string]Topic, len(topics))
	for _, topic := range topics {
		known[topic.Name] = topic
	}
	for _, name := range handled {
		if _, ok := known[name]; !ok {
			c.forget(name)
			if known[name], err = c.makeTopic(ctx, name); err != nil {
				return err
			}
		}
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	maps.Copy(known, c.learned) // since the question, which may have been answered before
	c.topics = known
	for name, topic := range known {
		handler := c.handlers[name]
		w := c.workers[name]
		switch serves := c.canRun(topic, handler) || c.cfg.All && len(c.cfg.Callers) > 0 && !topic.Pull; {
		case serves && w == nil:
			c.workers[name] = newWorker(c, topic, handler)
		case serves:
			w.change(topic, handler)
		case w != nil:
			c.dismiss(name, w)
		}
	}
	for name, w := range c.workers {
		if _, ok := known[name]; !ok {
			w.doubt("")
			c.dismiss(name, w)
		}
	}
	for name, d := range c.dispatchers {
		if topic, ok := known[name]; ok {
			d.change(topic)
		} else if d.stats().Waiting == 0 { // waiting requests hear of tasks: the topic may be newer than this list
			delete(c.dispatchers, name)
		}
	}
	return nil
}

// dismiss ends the worker of a topic no longer served. c.mu must be held.
func (c *Center) dismiss(name string, w *worker) {
	delete(c.workers, name)
	c.dismissed.Go(func() { w.drain(c.cfg.Grace) })
}

// adopt takes the view of a heartbeat that began then.
func (c *Center) adopt(view engine.View, began time.Time) {
	c.mu.Lock()
	changed := !sameView(view, c.view)
	if c.view, c.began = view, began; changed {
		c.setBare(view)
	}
	c.mu.Unlock()
	c.deal(true, changed)
}

// deal gives the workers their slots of the last view if it has changed, or if their topics have grown. Unless a
// heartbeat has just answered with it, workers of newer topics ask for all slots. It is safe for several nodes to ask
// for a slot; the tasks of a slot without a node would be late.
func (c *Center) deal(answered, changed bool) {
	c.mu.Lock()
	view, began, workers := c.view, c.began, slices.Collect(maps.Values(c.workers))
	c.mu.Unlock()
	for _, w := range workers {
		w.assign(view, began, answered, changed)
	}
}

// maintain does the engine's maintenance while this node is the leader.
func (c *Center) maintain(ctx context.Context) {
	for {
		c.revise(ctx)
		wait := c.cfg.TTL / 3
		if view := c.View(); view.Leader() == c.cfg.Node {
			c.countLonely(ctx)
			began := time.Now()
			purged, err := c.engine.Maintain(ctx)
			for topic, n := range purged.Dead {
				c.count(topic, func(s *Stats) { s.Purged += uint64(n) })
			}
			if err != nil && ctx.Err() == nil {
				c.cfg.Logger.Warn("timeout: maintenance", "err", err)
			}
			if purged.More && err == nil {
				wait = 10 * time.Millisecond // others are served in between
			} else {
				wait = max(wait, min(maintainShare*time.Since(began), maintainMost))
			}
		} else {
			c.setLonely(nil)
		}
		select {
		case <-time.After(wait):
		case <-ctx.Done():
			return
		}
	}
}

// count changes the counts of a topic, perhaps of one without a worker on this node.
func (c *Center) count(topic string, change func(*Stats)) {
	c.mu.Lock()
	d := c.dispatcher(topic)
	c.mu.Unlock()
	d.mu.Lock()
	defer d.mu.Unlock()
	change(&d.counts)
}

// woken makes the worker of a topic look. The empty topic means that the engine listens now; see
// engine.Waker.
func (c *Center) woken(topic string) {
	if topic == "" {
		c.hear(true)
		return
	}
	c.tell(topic, (*leaser).woken)
}

// doubt makes the worker of a topic ask whether leases of a task still last, or all leases of the topic if the key has no ID.
func (c *Center) doubt(key Key) {
	c.mu.Lock()
	w := c.workers[key.Topic]
	c.mu.Unlock()
	if w != nil {
		w.doubt(key.ID)
	}
}

// doubtAll is doubt for many keys.
func (c *Center) doubtAll(keys []Key) {
	for _, key := range keys {
		c.doubt(key)
	}
}

// tell calls a method of the worker and of the dispatcher of a topic, if there are such.
func (c *Center) tell(topic string, method func(*leaser)) {
	c.mu.Lock()
	w, d := c.workers[topic], c.dispatchers[topic]
	c.mu.Unlock()
	if w != nil {
		method(&w.leaser)
	}
	if d != nil {
		method(&d.leaser)
	}
}

// hear notes whether the engine tells of new tasks and ended leases from now on. All workers look for both, since some
// calls may be missing.
func (c *Center) hear(hears bool) {
	c.hears.Store(hears)
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, w := range c.workers {
		w.woken()
		if hears {
			w.doubt("")
		}
	}
	for _, d := range c.dispatchers {
		d.woken()
	}
}

// poll returns the longest sleep of a worker.
func (c *Center) poll() time.Duration {
	if !c.hears.Load() {
		return c.cfg.Poll
	}
	return max(c.cfg.Poll, net)
}

// follow asks for notifications until ctx ends. When they end, it waits a second before it asks again.
func (c *Center) follow(ctx context.Context, what string, notify func(ctx context.Context) error) {
	for ctx.Err() == nil {
		if err := notify(ctx); ctx.Err() == nil {
			c.cfg.Logger.Warn("timeout: notifications ended, and are asked for again", "of", what, "err", err)
		}
		select {
		case <-time.After(time.Second):
		case <-ctx.Done():
		}
	}
}

// stop ends all workers.
func (c *Center) stop() error {
	ctx, cancel := context.WithTimeout(context.Background(), leaveTimeout)
	defer cancel()
	c.mu.Lock()
	for _, w := range c.workers { // others take the limits for all nodes over
		w.disown()
	}
	c.mu.Unlock()
	if err := c.members.Leave(ctx, c.cfg.Node); err != nil {
		c.cfg.Logger.Warn("timeout: this node could not leave", "err", err)
	}
	c.mu.Lock()
	for name, w := range c.workers {
		c.dismiss(name, w)
	}
	c.mu.Unlock()
	c.dismissed.Wait()
	c.mu.Lock()
	defer c.mu.Unlock()
	c.running = false
	c.view, c.began, c.lonely, c.bare, c.unserved = engine.View{}, time.Time{}, nil, nil, nil
	left := c.left
	c.left = 0
	if left > 0 {
		return fmt.Errorf("timeout: %d handlers still run: their results will be ignored, and their tasks may run again", left)
	}
	return nil
}

// sameView reports whether the slots of all topics are dealt in the same way.
func sameView(a, b engine.View) bool {
	return slices.EqualFunc(a.Nodes, b.Nodes, func(a, b engine.Node) bool {
		return a.Name == b.Name && (a.Topics == nil) == (b.Topics == nil) && slices.Equal(a.Topics, b.Topics)
	})
}
