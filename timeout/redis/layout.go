package redis

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	goredis "github.com/redis/go-redis/v9"

	"github.com/heartwheel-go/heartwheel/internal/redisrun"
	"github.com/heartwheel-go/heartwheel/timeout/engine"
)

// phase is how far a topic is in a change of several steps.
type phase string

const (
	steady   phase = ""
	masked   phase = "masked"   // steady, with fewer partitions than slots: a version before knows only as many, and must refuse
	dropping phase = "dropping" // all partitions are deleted, then the topic
	dropped  phase = "dropped"  // only in copies: there is no such topic any more
)

// usable reports whether the tasks of a topic can be found and changed.
func (p phase) usable() bool { return p == steady || p == masked }

// kept is the record of a topic in Redis. It only changes as a whole, by compare and swap. A process
// goes on with a change that it finds under way. An unknown phase is an error.
type kept struct {
	Topic engine.Topic `json:"topic"`
	Phase phase        `json:"phase,omitempty"`

	// Parts is the number of partitions: as many as the topic had slots when it was made. Zero means as many as slots.
	Parts int `json:"parts,omitempty"`

	// Rev is higher after each change of what the partitions know of the topic.
	Rev int64 `json:"rev"`

	// Seq is higher after each change, and in a topic made anew under the same name.
	Seq int64 `json:"seq"`

	// Gen is the generation of the partitions' keys. FirstGen is the topic's first one: leases of older ones were
	// of a dropped topic. It is Gen, unless the topic was migrated. Old is for migrate.
	Gen      int64       `json:"gen"`
	FirstGen int64       `json:"born"`
	Old      *generation `json:"old,omitempty"`
}

// with returns the record with another topic of the same name. Its partitions stay.
func (k kept) with(topic engine.Topic) kept {
	if topic.Slots > k.Topic.Slots && k.Parts == 0 {
		k.Phase, k.Parts = masked, k.Topic.Slots
	}
	k.Topic = topic
	return k
}

// layout is a topic as this process knows it. Nothing depends on its being up to date: partitions
// out of use refuse, and each slot below their number is asked for its own.
type layout struct {
	kept
	raw        string
	partitions []*partition
	due        dueCache

	servers struct {
		mu     sync.Mutex
		byPart []int     // their numbers, in a Cluster
		read   time.Time // when
	}
}

func (e *Engine) newLayout(raw string) (*layout, error) {
	l := &layout{raw: raw}
	if err := parse(raw, &l.kept); err != nil {
		return nil, err
	}
	l.partitions = e.partitions(l.Topic.Name, l.Gen, cmp.Or(l.Parts, l.Topic.Slots))
	l.due.parts = make([]partDue, len(l.partitions))
	return l, nil
}

// partition returns that of an id.
func (l *layout) partition(id string) *partition {
	return l.partitions[engine.Slot(id, len(l.partitions))]
}

// parts returns the partitions of some slots, each once. Nil means all. There are at most as many partitions as slots, so
// several slots may share one.
func (l *layout) parts(slots []int) []int {
	if slots == nil {
		slots = l.Topic.Asked(nil)
	}
	parts := make([]int, len(slots))
	for i, slot := range slots {
		parts[i] = slot & (len(l.partitions) - 1)
	}
	slices.Sort(parts)
	return slices.Compact(parts)
}

// known returns a topic as this process knows it, or nil.
func (e *Engine) known(topic string) *layout {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.layouts[topic]
}

// layout returns a topic, ready for use. After a refusal stale is the refused layout, to be read
// anew, and otherwise nil. The error wraps ErrNotFound if there is no such topic.
func (e *Engine) layout(ctx context.Context, topic string, stale *layout) (*layout, error) {
	if e.redis.Closed() {
		return nil, engine.ErrClosed
	}
	if known := e.known(topic); known != nil && known != stale {
		return known, nil
	}
	return e.reload(ctx, topic)
}

// reload reads a topic, and goes on with what somebody has begun, until it can be used.
func (e *Engine) reload(ctx context.Context, topic string) (*layout, error) {
	for attempt := 0; ; attempt++ {
		l, err := e.load1(ctx, topic)
		if err != nil {
			if errors.Is(err, engine.ErrNotFound) {
				e.forget(topic)
			}
			return nil, err
		}
		if l.Phase.usable() {
			return e.learn(l), nil
		}
		switch err := e.finish(ctx, l); {
		case err == nil:
		case !errors.Is(err, errStale):
			return nil, err
		case attempt == tries:
			return nil, changing(topic, attempt)
		}
		if err := redisrun.Pause(ctx, attempt); err != nil {
			return nil, err
		}
	}
}

// finish goes on with work begun by somebody, until the topic can be used or is gone. It may have to be called again. A
// phase of a later version is an error.
func (e *Engine) finish(ctx context.Context, l *layout) error {
	switch l.Phase {
	case sealing, moving:
		return e.migrate(ctx, l)
	case dropping:
		return e.drop(ctx, l)
	}
	return l.Phase.check(l.Topic.Name)
}

func (p phase) check(topic string) error {
	if !slices.Contains([]phase{steady, masked, sealing, moving, dropping}, p) {
		return fmt.Errorf("timeout/redis: topic %q is in phase %q, of a later version", topic, p)
	}
	return nil
}

// errStale means a change of the topic since this process has read it: see using.
var errStale = errors.New("timeout/redis: topic has changed")

// changing is the error of a call that ends in place of another attempt.
func changing(topic string, attempts int) error {
	return fmt.Errorf("timeout/redis: topic %s has changed %d times during a call", topic, attempts)
}

// load1 reads a topic. In a Cluster all copies know of what it returns, as far as they answer.
func (e *Engine) load1(ctx context.Context, topic string) (*layout, error) {
	for attempt := 0; ; attempt++ {
		raw, err := e.read(ctx, topic)
		if err != nil {
			return nil, err
		}
		should, err := e.reconcile(ctx, topic, raw, false)
		switch {
		case err != nil:
			return nil, err
		case should == raw && raw == "":
			return nil, noTopic(topic)
		case should == raw:
			return e.newLayout(raw)
		}
		if _, err := e.swap(ctx, topic, raw, should); err != nil {
			return nil, err
		}
		if err := redisrun.Pause(ctx, attempt); err != nil {
			return nil, err
		}
	}
}

// read returns a topic's record in the hash, or an empty one.
func (e *Engine) read(ctx context.Context, topic string) (raw string, err error) {
	err = e.redis.OnKey(ctx, e.topicsKey, func(client *goredis.Client) (err error) {
		raw, err = client.HGet(ctx, e.topicsKey, topic).Result()
		if err != nil && !errors.Is(err, goredis.Nil) {
			return fmt.Errorf("timeout/redis: reading topic %q: %w", topic, err)
		}
		return nil
	})
	return raw, err
}

func noTopic(name string) error { return fmt.Errorf("%w: topic %q", engine.ErrNotFound, name) }

// learn keeps a layout for the next calls. If the known one is the same, it returns that, with all
// its cache of due times. The cache of another one ends with it.
func (e *Engine) learn(l *layout) *layout {
	e.mu.Lock()
	defer e.mu.Unlock()
	if known := e.layouts[l.Topic.Name]; known != nil && known.raw == l.raw {
		return known
	}
	e.layouts[l.Topic.Name] = l
	return l
}

func (e *Engine) forget(topic string) {
	e.mu.Lock()
	delete(e.layouts, topic)
	delete(e.proofs, topic)
	e.mu.Unlock()
}

// forgetOthers forgets topics that others have dropped. One that was made just now is read again.
func (e *Engine) forgetOthers(layouts []*layout) {
	there := make(map[string]bool, len(layouts))
	for _, l := range layouts {
		there[l.Topic.Name] = true
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	maps.DeleteFunc(e.layouts, func(name string, _ *layout) bool { return !there[name] })
	maps.DeleteFunc(e.proofs, func(name string, _ proof) bool { return !there[name] })
}

// change replaces what is kept of a topic, if it still is what l says, or if there still is
// none if l is nil. It returns nil if there was another change.
func (e *Engine) change(ctx context.Context, l *layout, to kept) (*layout, error) {
	before, name := "", to.Topic.Name
	if l != nil {
		before = l.raw
		to.Seq = l.Seq + 1
	}
	raw, err := to.json()
	if err != nil {
		return nil, err
	}
	done, err := e.swap(ctx, name, before, raw)
	if err != nil || !done {
		return nil, err
	}
	should, err := e.reconcile(ctx, name, raw, true)
	if err != nil {
		return nil, err
	}
	if should != raw { // the hash had lost changes, or has lost this one, or there are others since
		_, err := e.swap(ctx, name, raw, should)
		return nil, err
	}
	return e.newLayout(raw)
}

func (e *Engine) swap(ctx context.Context, topic, before, after string) (bool, error) {
	c := &redisrun.Call{Script: scriptTopic, Keys: []any{e.topicsKey}, Args: []any{topic, before, after}}
	if err := e.redis.RunOne(ctx, c); err != nil {
		return false, err
	}
	return c.Answer[0] == int64(1), nil
}

// number returns a number above floor, for a generation or a revision. It is never given twice.
func (e *Engine) number(ctx context.Context, floor int64) (int64, error) {
	c := &redisrun.Call{Script: scriptNumber, Keys: []any{e.numberKey}, Args: []any{floor}}
	if err := e.redis.RunOne(ctx, c); err != nil {
		return 0, err
	}
	return integer(c.Answer[0]), nil
}
