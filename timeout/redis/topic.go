package redis

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	goredis "github.com/redis/go-redis/v9"

	"github.com/heartwheel-go/heartwheel/internal/redisrun"
	"github.com/heartwheel-go/heartwheel/timeout/engine"
)

// tombstone is how long the tombstone of a partition out of use stays. A process may stand still for that long
// between reading a topic and using it. After a longer time nobody would tell it.
const tombstone = 24 * time.Hour

// SetTopic is engine.Engine's. More slots are a change of the record, as any other: the partitions stay.
func (e *Engine) SetTopic(ctx context.Context, topic engine.Topic, onlyNew bool, was ...engine.Topic) (engine.Topic, error) {
	return e.alter(ctx, topic.Name, func(now *layout) (*layout, error) {
		var place engine.Topic
		if now != nil {
			place = now.Topic
		}
		at, err := e.clockFor(ctx, place, topic)
		if err != nil {
			return nil, err
		}
		next, changes, err := topic.In(place, at, onlyNew, was...)
		switch {
		case err != nil:
			return nil, err
		case !changes:
			return e.learn(now), nil
		case now == nil:
			return e.makeTopic(ctx, next)
		}
		return e.revise(ctx, now, next)
	})
}

// Pause is engine.Engine's. Processes of a version before Topic.PausedUntil take the topic for paused until somebody resumes it,
// and it stays so if they change it.
func (e *Engine) Pause(ctx context.Context, name string, paused bool, until time.Time) (engine.Topic, error) {
	return e.alter(ctx, name, func(now *layout) (*layout, error) {
		if now == nil {
			return nil, noTopic(name)
		}
		topic := now.Topic
		topic.Paused, topic.PausedUntil = paused, until
		at, err := e.clockFor(ctx, topic)
		if err != nil {
			return nil, err
		}
		return e.revise(ctx, now, topic.At(at))
	})
}

// clockFor returns the clock for Topic.At, or zero if no pause ends by itself.
func (e *Engine) clockFor(ctx context.Context, topics ...engine.Topic) (int64, error) {
	if !slices.ContainsFunc(topics, func(t engine.Topic) bool { return !t.PausedUntil.IsZero() }) {
		return 0, nil
	}
	now, err := e.Now(ctx)
	return now.UnixMilli(), err
}

// alter has a function make a new layout of a topic's, or of nil if there is no such topic. It calls
// the function again if it returns nil or stale: somebody else was faster, or something had to be done first.
// Before, it finishes a drop or a migration begun by somebody.
func (e *Engine) alter(ctx context.Context, name string, step func(now *layout) (*layout, error)) (engine.Topic, error) {
	for attempt := 0; ; attempt++ {
		now, err := e.load1(ctx, name)
		if err != nil && !errors.Is(err, engine.ErrNotFound) {
			return engine.Topic{}, err
		}
		var next *layout
		if now != nil && !now.Phase.usable() {
			err = e.finish(ctx, now)
		} else {
			next, err = step(now)
		}
		if err != nil && !errors.Is(err, errStale) {
			return engine.Topic{}, err
		}
		if next != nil {
			at, err := e.clockFor(ctx, next.Topic)
			return next.Topic.At(at), err
		}
		if err := redisrun.Pause(ctx, attempt); err != nil {
			return engine.Topic{}, err
		}
	}
}

// makeTopic makes the partitions, then the topic. It returns nil if somebody else has made it.
func (e *Engine) makeTopic(ctx context.Context, topic engine.Topic) (*layout, error) {
	floor, err := e.tombstone(ctx, topic.Name)
	if err != nil {
		return nil, err
	}
	if err := e.step("number"); err != nil {
		return nil, err
	}
	gen, err := e.number(ctx, floor)
	if err != nil {
		return nil, err
	}
	partitions := e.partitions(topic.Name, gen, topic.Slots)
	to := kept{Topic: topic, Rev: gen, Seq: gen, Gen: gen, FirstGen: gen}
	err = e.makeParts(ctx, to, partitions, 0, func(c *invocation) error {
		if integer(c.Answer[0]) != 1 {
			return errStale // the number is somebody else's, too: its counter was lost
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	if err := e.step("topic"); err != nil {
		return nil, err
	}
	l, err := e.change(ctx, nil, to)
	if err != nil {
		return nil, err
	}
	if l != nil {
		return e.learn(l), nil
	}
	switch l, err = e.load1(ctx, topic.Name); {
	case err == nil && l.FirstGen == gen: // changed by others since
		return nil, nil
	case err != nil && !errors.Is(err, engine.ErrNotFound):
		return nil, err
	}
	return nil, e.dropParts(ctx, partitions)
}

// makeParts makes partitions of a topic, as far as they are missing, and opens sealed ones, unless the topic is being
// migrated. number is a floor for the numbers they give.
func (e *Engine) makeParts(ctx context.Context, k kept, partitions []*partition, number int64, take func(*invocation) error) error {
	from := ""
	if k.Old != nil {
		from = partOf(k.Old.Gen)
	}
	return e.all(ctx, partitions, func(at *partition) *invocation {
		return invoke(scriptMake, at, append(k.says(), number, from)...)
	}, take)
}

// mend is for a refusal by a partition: it reads the topic again. If the topic is the same, a server has lost data. Then
// mend makes the partition anew if it is gone, and opens it if it is sealed. It returns stale if there is hope.
func (e *Engine) mend(ctx context.Context, l *layout, c *invocation) error {
	e.prove(l.Topic.Name, "") // in a Cluster the copies may know more than the hash
	now, err := e.load1(ctx, l.Topic.Name)
	if err != nil || now.raw != l.raw {
		return errStale // the next reader of the topic finds out
	}
	return e.makeParts(ctx, l.kept, []*partition{c.at}, 0, func(made *invocation) error {
		if integer(made.Answer[0]) == 2 {
			return fmt.Errorf("timeout/redis: partition %d of topic %s was dropped, and the topic was not: drop it again", c.at.part, l.Topic.Name)
		}
		return errStale
	})
}

// all runs a script for many partitions, and gives the answers to take, if not nil.
func (e *Engine) all(ctx context.Context, partitions []*partition, call func(*partition) *invocation, take func(*invocation) error) error {
	for group := range slices.Chunk(partitions, 4*redisrun.Window) {
		calls := make([]*invocation, len(group))
		for i, at := range group {
			calls[i] = call(at)
		}
		if err := e.run(ctx, calls); err != nil {
			return err
		}
		for _, c := range calls {
			if take != nil {
				if err := take(c); err != nil {
					return err
				}
			}
		}
	}
	return nil
}

// keep is the script to tell a partition about its topic. It also deletes ended tasks after their time and
// beyond a bound, at most limit of each state.
func (k kept) keep(at *partition, limit int, most bound) *invocation {
	retainDead := engine.CeilMillis(k.Topic.WithDefaults().RetainDead)
	c := invoke(scriptKeep, at, append(k.says(), limit, retainDead, most[0], most[1], most[2])...)
	c.room = 3 * limit
	return c
}

// says returns what a partition knows of its topic: the first arguments of make.lua and keep.lua.
func (k kept) says() []any {
	paused := int64(0)
	if k.Topic.Paused {
		paused = 1
	}
	if !k.Topic.PausedUntil.IsZero() {
		paused = engine.Millis(k.Topic.PausedUntil)
	}
	return []any{k.Rev, engine.CeilMillis(k.Topic.WithDefaults().Retain), paused}
}

// revise changes a topic, and tells its partitions. It returns nil if the caller must try again.
func (e *Engine) revise(ctx context.Context, now *layout, topic engine.Topic) (*layout, error) {
	rev, err := e.number(ctx, max(now.Rev, now.Gen))
	if err != nil {
		return nil, err
	}
	to := now.with(topic)
	to.Rev = rev
	next, err := e.change(ctx, now, to)
	if err != nil || next == nil {
		return nil, err
	}
	if err := e.step("tell"); err != nil {
		return nil, err
	}
	next = e.learn(next)
	return next, e.all(ctx, next.partitions, func(at *partition) *invocation { return to.keep(at, 0, unbound) }, nil)
}

// Topics is engine.Engine's.
func (e *Engine) Topics(ctx context.Context) ([]engine.Topic, error) {
	layouts, err := e.loadAll(ctx)
	if err != nil {
		return nil, err
	}
	topics := make([]engine.Topic, 0, len(layouts))
	for _, l := range layouts {
		if l.Phase != dropping {
			topics = append(topics, l.Topic)
		}
	}
	at, err := e.clockFor(ctx, topics...)
	for i, topic := range topics {
		topics[i] = topic.At(at)
	}
	return topics, err
}

// loadAll reads all topics, by name. Unchanged ones are the known layouts. It forgets all others.
func (e *Engine) loadAll(ctx context.Context) ([]*layout, error) {
	var all map[string]string
	err := e.redis.OnKey(ctx, e.topicsKey, func(client *goredis.Client) (err error) {
		if all, err = client.HGetAll(ctx, e.topicsKey).Result(); err != nil {
			return fmt.Errorf("timeout/redis: reading the topics: %w", err)
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	layouts := make([]*layout, 0, len(all))
	for name, raw := range all {
		l := e.known(name)
		if l == nil || l.raw != raw {
			if l, err = e.newLayout(raw); err != nil {
				return nil, err
			}
		}
		layouts = append(layouts, l)
	}
	if e.redis.Clustered() {
		lost, err := e.loadLost(ctx, all)
		if err != nil {
			return nil, err
		}
		layouts = append(layouts, lost...)
	}
	e.forgetOthers(layouts)
	slices.SortFunc(layouts, func(a, b *layout) int { return strings.Compare(a.Topic.Name, b.Topic.Name) })
	return layouts, nil
}

// loadLost reads the topics with a record in the copies only.
func (e *Engine) loadLost(ctx context.Context, known map[string]string) (lost []*layout, err error) {
	names, err := e.copied(ctx)
	if err != nil && len(known) == 0 {
		return nil, err // with topics in the hash, it was not lost
	}
	for name := range names {
		if _, ok := known[name]; ok {
			continue
		}
		l, err := e.load1(ctx, name)
		if errors.Is(err, engine.ErrNotFound) {
			continue
		}
		if err != nil {
			return nil, err
		}
		lost = append(lost, l)
	}
	return lost, nil
}

// DropTopic is engine.Engine's.
func (e *Engine) DropTopic(ctx context.Context, name string) error {
	for attempt := 0; ; attempt++ {
		l, err := e.load1(ctx, name)
		if err != nil {
			return err
		}
		if l.Phase != dropping {
			if err := l.Phase.check(name); err != nil {
				return err
			}
			to := l.kept
			to.Phase = dropping
			if l, err = e.change(ctx, l, to); err != nil {
				return err
			}
		}
		if l != nil {
			return e.drop(ctx, l)
		}
		if err := redisrun.Pause(ctx, attempt); err != nil {
			return err
		}
	}
}

// drop deletes the partitions of a topic in phase dropping, then the topic.
func (e *Engine) drop(ctx context.Context, l *layout) error {
	e.forget(l.Topic.Name)
	if err := e.step("drop parts"); err != nil {
		return err
	}
	if err := e.dropParts(ctx, slices.Concat(e.oldPartitions(l), l.partitions)); err != nil {
		return err
	}
	if err := e.step("drop topic"); err != nil {
		return err
	}
	if err := e.writeTombstone(ctx, l); err != nil {
		return err
	}
	if err := e.step("tombstone"); err != nil {
		return err
	}
	_, err := e.swap(ctx, l.Topic.Name, l.raw, "")
	return err
}

func (e *Engine) dropParts(ctx context.Context, partitions []*partition) error {
	return e.all(ctx, partitions, func(at *partition) *invocation {
		return invoke(scriptDrop, at, tombstone.Milliseconds(), e.channel, wakePrefix(at))
	}, nil)
}
