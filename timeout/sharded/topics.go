package sharded

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"reflect"
	"slices"
	"time"

	"github.com/heartwheel-go/heartwheel/timeout/engine"
)

func noTopic(name string) error { return fmt.Errorf("%w: topic %q", engine.ErrNotFound, name) }

// SetTopic implements engine.Engine. The first shard decides, and the others copy its topic. If a
// shard is away, it gets a new topic when it is back. A change must reach all shards, or SetTopic
// returns an error. Even then the reached shards are changed, and the others will be.
func (e *core) SetTopic(ctx context.Context, wanted engine.Topic, onlyNew bool) (kept engine.Topic, err error) {
	if err := e.enter(ctx); err != nil {
		return kept, err
	}
	if wanted.Name == engine.Reserved {
		return kept, fmt.Errorf("%w: topic %s is that of the marks of shards", engine.ErrArgument, engine.Reserved)
	}
	wanted = e.shareOf(wanted)
	err = e.call(ctx, e.shards[0], func(ctx context.Context, eng engine.Engine) (err error) {
		kept, err = eng.SetTopic(ctx, wanted, onlyNew)
		return err
	})
	if err != nil {
		return kept, err
	}
	e.mu.Lock()
	e.slots[kept.Name] = kept.Slots
	e.mu.Unlock()
	errs := e.together(isNotFirst, func(s *shard) error {
		return e.call(ctx, s, func(ctx context.Context, eng engine.Engine) error { return e.copyTopic(ctx, s, eng, kept, onlyNew) })
	})
	if err := errors.Join(errs...); err != nil && (!onlyNew || ctx.Err() != nil) {
		return e.wholeOf(kept), err
	}
	return e.wholeOf(kept), nil
}

// shareOf returns a topic for a shard, with a share of MaxDead.
func (e *core) shareOf(whole engine.Topic) engine.Topic {
	if whole.MaxDead >= 0 {
		whole.MaxDead = (cmp.Or(whole.MaxDead, engine.DefaultMaxDead)-1)/len(e.shards) + 1
	}
	return whole
}

// wholeOf returns the whole topic from a shard's. MaxDead is rounded up, unless it is the default.
func (e *core) wholeOf(share engine.Topic) engine.Topic {
	switch n := share.MaxDead; {
	case n == e.shareOf(engine.Topic{}).MaxDead:
		share.MaxDead = engine.DefaultMaxDead
	case n > 0:
		share.MaxDead = min(n, math.MaxInt/len(e.shards)) * len(e.shards)
	}
	return share
}

// Pause implements engine.Engine. It is like SetTopic for an existing topic.
func (e *core) Pause(ctx context.Context, name string, paused bool) (kept engine.Topic, err error) {
	if err := e.enter(ctx); err != nil {
		return kept, err
	}
	if name == engine.Reserved {
		return kept, noTopic(name)
	}
	err = e.call(ctx, e.shards[0], func(ctx context.Context, eng engine.Engine) (err error) {
		kept, err = eng.Pause(ctx, name, paused)
		return err
	})
	if err != nil {
		return kept, err
	}
	errs := e.together(isNotFirst, func(s *shard) error {
		return e.call(ctx, s, func(ctx context.Context, eng engine.Engine) error { return e.copyTopic(ctx, s, eng, kept, false) })
	})
	return e.wholeOf(kept), errors.Join(errs...)
}

func isNotFirst(place int) bool { return place > 0 }

// copyTopic copies a topic from the first shard to another. It repeats the copy until the first
// shard still has the same topic afterwards. So of two copies at the same time, the last one to
// check has copied the last state. With onlyNew it begins with topic, and an equal one is enough.
//
// The copies to one shard take turns, and each reads the first shard in its turn. Otherwise one with
// an earlier state could resume a topic for a moment, after Pause has returned. Another process still can.
func (e *core) copyTopic(ctx context.Context, s *shard, eng engine.Engine, topic engine.Topic, onlyNew bool) error {
	select {
	case s.copying <- struct{}{}:
		defer func() { <-s.copying }()
	case <-ctx.Done():
		return ctx.Err()
	}
	if onlyNew {
		there, err := eng.SetTopic(ctx, topic, true)
		if err != nil || same(there, topic) {
			return err
		}
	}
	for copied, grown := false, false; ; {
		now, found, err := e.firstHas(ctx, topic.Name)
		switch {
		case err != nil || !found || copied && same(now, topic):
			return err
		case grown && same(now, topic):
			if now, err = e.growFirst(ctx, eng, topic); err != nil {
				return err
			}
		}
		topic = now
		there, err := eng.SetTopic(ctx, topic, false)
		grown = errors.Is(err, engine.ErrConflict)
		if err == nil && there.Paused != topic.Paused { // SetTopic does not change Paused
			if _, err = eng.Pause(ctx, topic.Name, topic.Paused); errors.Is(err, engine.ErrNotFound) {
				copied = false
				continue
			}
		}
		if err != nil && !grown {
			return err
		}
		copied = !grown
	}
}

// growFirst gives the first shard's topic as many slots as another shard's. The first shard was
// restored from a time with fewer slots, and nobody would look into the additional ones.
func (e *core) growFirst(ctx context.Context, eng engine.Engine, topic engine.Topic) (grown engine.Topic, err error) {
	have, err := visible(ctx, eng)
	if err != nil {
		return grown, err
	}
	for _, there := range have {
		if there.Name == topic.Name {
			topic.Slots = max(topic.Slots, there.Slots)
		}
	}
	err = e.callWithin(ctx, e.shards[0], e.cfg.Patience/3, func(ctx context.Context, first engine.Engine) (err error) {
		grown, err = first.SetTopic(ctx, topic, false)
		return err
	})
	return grown, err
}

// same reports whether two topics are equal.
func same(a, b engine.Topic) bool { return reflect.DeepEqual(a, b) }

// firstHas returns a topic of the first shard.
func (e *core) firstHas(ctx context.Context, name string) (topic engine.Topic, found bool, err error) {
	topics, err := e.firstTopics(ctx)
	if i := slices.IndexFunc(topics, func(t engine.Topic) bool { return t.Name == name }); i >= 0 {
		return topics[i], true, err
	}
	return topic, false, err
}

// firstTopics returns the topics of the first shard during a call of another one. It has only a
// third of Patience: the other shard must not count as away if the first one is silent.
func (e *core) firstTopics(ctx context.Context) ([]engine.Topic, error) {
	return e.topicsOf(ctx, e.shards[0], e.cfg.Patience/3)
}

// topicsOf returns a shard's topics, without engine.Reserved.
func (e *core) topicsOf(ctx context.Context, s *shard, patience time.Duration) (topics []engine.Topic, err error) {
	err = e.callWithin(ctx, s, patience, func(ctx context.Context, eng engine.Engine) (err error) {
		topics, err = visible(ctx, eng)
		return err
	})
	return topics, err
}

func visible(ctx context.Context, e engine.Engine) ([]engine.Topic, error) {
	topics, err := e.Topics(ctx)
	return slices.DeleteFunc(topics, func(t engine.Topic) bool { return t.Name == engine.Reserved }), err
}

// Topics implements engine.Engine: it returns the topics of the first answering shard.
func (e *core) Topics(ctx context.Context) ([]engine.Topic, error) {
	if err := e.enter(ctx); err != nil {
		return nil, err
	}
	var errs []error
	for _, s := range e.shards {
		topics, err := e.topicsOf(ctx, s, e.cfg.Patience)
		if err == nil {
			slots := make(map[string]int, len(topics))
			for i, topic := range topics {
				slots[topic.Name] = topic.Slots
				topics[i] = e.wholeOf(topic)
			}
			e.mu.Lock()
			e.slots = slots
			e.mu.Unlock()
			return topics, nil
		}
		errs = append(errs, err)
	}
	return nil, errors.Join(errs...)
}

// DropTopic implements engine.Engine. All shards must answer. After an error, call it again.
func (e *core) DropTopic(ctx context.Context, name string) error {
	if err := e.enter(ctx); err != nil {
		return err
	}
	if name == engine.Reserved {
		return noTopic(name)
	}
	for _, s := range e.shards { // begin only if all shards answer
		if err := e.call(ctx, s, func(ctx context.Context, eng engine.Engine) error { _, err := eng.Now(ctx); return err }); err != nil {
			return err
		}
	}
	drop := func(s *shard) error {
		return e.callLong(ctx, s, func(ctx context.Context, eng engine.Engine) error { return eng.DropTopic(ctx, name) })
	}
	// The first shard goes first: without the topic there, no other shard gets it again.
	errs := append([]error{drop(e.shards[0])}, e.together(isNotFirst, drop)[1:]...)
	e.mu.Lock()
	delete(e.slots, name)
	e.mu.Unlock()
	return allBut(errs, engine.ErrNotFound)
}

// allBut joins the errors other than answer. It returns answer only if all shards say so.
func allBut(errs []error, answer error) error {
	var wrong []error
	said := 0
	for _, err := range errs {
		switch {
		case errors.Is(err, answer):
			said++
		case err != nil:
			wrong = append(wrong, err)
		}
	}
	if said > 0 && said == len(errs) {
		return errs[0]
	}
	return errors.Join(wrong...)
}

// align copies the first shard's topics that the shard has missed while away. The shard's other
// topics stay: the first shard may have been restored from an earlier time.
func (e *core) align(ctx context.Context, s *shard, eng engine.Engine) error {
	if s.place == 0 {
		return nil
	}
	wanted, err := e.firstTopics(ctx)
	if err != nil {
		return ctx.Err() // later: the first one is away, too
	}
	have, err := visible(ctx, eng)
	if err != nil {
		return err
	}
	there := make(map[string]engine.Topic, len(have))
	for _, topic := range have {
		there[topic.Name] = topic
	}
	for _, topic := range wanted {
		if has, ok := there[topic.Name]; !ok || !same(has, topic) {
			if err := e.copyTopic(ctx, s, eng, topic, !ok); err != nil {
				return err
			}
		}
	}
	return nil
}

// heal copies missing topics from the first shard, and reports whether any was copied.
func (e *core) heal(ctx context.Context, s *shard, eng engine.Engine, names ...string) (healed bool) {
	topics, err := e.firstTopics(ctx)
	if err != nil {
		return false
	}
	for _, topic := range topics {
		if slices.Contains(names, topic.Name) {
			healed = e.copyTopic(ctx, s, eng, topic, true) == nil || healed
		}
	}
	return healed
}

// Count implements engine.Engine. All shards must answer.
func (e *core) Count(ctx context.Context, topic string) (sum engine.Counts, err error) {
	if err := e.enter(ctx); err != nil {
		return sum, err
	}
	if topic == engine.Reserved {
		return sum, noTopic(topic)
	}
	parts := make([]engine.Counts, len(e.shards))
	errs := e.together(nil, func(s *shard) error {
		return e.callLong(ctx, s, func(ctx context.Context, eng engine.Engine) (err error) {
			parts[s.place], err = eng.Count(ctx, topic)
			return err
		})
	})
	if err := allBut(errs, engine.ErrNotFound); err != nil {
		return sum, err
	}
	for _, part := range parts {
		sum.Pending += part.Pending
		sum.Running += part.Running
		sum.Done += part.Done
		sum.Dead += part.Dead
		sum.Removed += part.Removed
		sum.Due += part.Due
		sum.Lag = max(sum.Lag, part.Lag)
	}
	return sum, nil
}
