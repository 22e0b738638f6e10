package sharded

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"time"

	"github.com/heartwheel-go/heartwheel/timeout"
)

func noTopic(name string) error { return fmt.Errorf("%w: topic %q", timeout.ErrNotFound, name) }

// SetTopic is timeout.Engine's. The first shard decides, and the others get what it has. One
// that is away gets a new topic when it is back; a change of a topic has to reach all of them,
// and is an error otherwise, which says nothing more: what was reached is changed, and the
// others will be.
func (e *core) SetTopic(ctx context.Context, wanted timeout.Topic, onlyNew bool) (kept timeout.Topic, err error) {
	if err := e.enter(ctx); err != nil {
		return kept, err
	}
	if wanted.Name == Reserved {
		return kept, fmt.Errorf("%w: topic %s is that of the marks of shards", timeout.ErrArgument, Reserved)
	}
	wanted = e.shareOf(wanted)
	err = e.call(ctx, e.shards[0], func(ctx context.Context, engine timeout.Engine) (err error) {
		kept, err = engine.SetTopic(ctx, wanted, onlyNew)
		return err
	})
	if err != nil {
		return kept, err
	}
	e.learn(kept)
	errs := e.together(isNotFirst, func(s *shard) error {
		return e.call(ctx, s, func(ctx context.Context, engine timeout.Engine) error { return e.copyTopic(ctx, engine, kept, onlyNew) })
	})
	if err := errors.Join(errs...); err != nil && (!onlyNew || ctx.Err() != nil) {
		return e.wholeOf(kept), err
	}
	return e.wholeOf(kept), nil
}

// shareOf returns a topic as each shard has it: with a share of the dead tasks.
func (e *core) shareOf(whole timeout.Topic) timeout.Topic {
	if whole.MaxDead >= 0 {
		n := len(e.shards)
		whole.MaxDead = (cmp.Or(whole.MaxDead, timeout.DefaultMaxDead) + n - 1) / n
	}
	return whole
}

// wholeOf returns a topic of a shard as it is of all. The number of dead tasks was rounded up,
// unless it is the default.
func (e *core) wholeOf(share timeout.Topic) timeout.Topic {
	switch n := share.MaxDead; {
	case n == e.shareOf(timeout.Topic{}).MaxDead:
		share.MaxDead = timeout.DefaultMaxDead
	case n > 0:
		share.MaxDead = n * len(e.shards)
	}
	return share
}

// Pause is timeout.Engine's: as SetTopic for a topic that is there.
func (e *core) Pause(ctx context.Context, name string, paused bool) (kept timeout.Topic, err error) {
	if err := e.enter(ctx); err != nil {
		return kept, err
	}
	if name == Reserved {
		return kept, noTopic(name)
	}
	err = e.call(ctx, e.shards[0], func(ctx context.Context, engine timeout.Engine) (err error) {
		kept, err = engine.Pause(ctx, name, paused)
		return err
	})
	if err != nil {
		return kept, err
	}
	errs := e.together(isNotFirst, func(s *shard) error {
		return e.call(ctx, s, func(ctx context.Context, engine timeout.Engine) error { return e.copyTopic(ctx, engine, kept, false) })
	})
	return e.wholeOf(kept), errors.Join(errs...)
}

func isNotFirst(place int) bool { return place > 0 }

func (e *core) learn(topics ...timeout.Topic) {
	e.mu.Lock()
	defer e.mu.Unlock()
	for _, topic := range topics {
		e.slots[topic.Name] = topic.Slots
	}
}

// copyTopic gives a shard a topic of the first one, and looks then whether it is still like that
// there: of two that copy at the same time, the last one to look has copied the last state.
func (e *core) copyTopic(ctx context.Context, engine timeout.Engine, topic timeout.Topic, onlyNew bool) error {
	for {
		there, err := engine.SetTopic(ctx, topic, onlyNew)
		grown := errors.Is(err, timeout.ErrConflict)
		if err != nil && !grown {
			return err
		}
		if err == nil && there.Paused != topic.Paused { // which a set does not change
			there, err = engine.Pause(ctx, topic.Name, topic.Paused)
			if err != nil && !errors.Is(err, timeout.ErrNotFound) {
				return err
			}
		}
		if err == nil && onlyNew && same(there, topic) {
			return nil
		}
		now, found, err := e.firstHas(ctx, topic.Name)
		switch {
		case err != nil || !found:
			return err
		case grown && same(now, topic):
			if now, err = e.growFirst(ctx, engine, topic); err != nil {
				return err
			}
		case same(now, topic) && !onlyNew:
			return nil
		}
		topic, onlyNew = now, false
	}
}

// growFirst has the first shard have as many slots as another one: it was restored from a time
// when there were fewer. Nobody would look into the others.
func (e *core) growFirst(ctx context.Context, engine timeout.Engine, topic timeout.Topic) (grown timeout.Topic, err error) {
	have, err := visible(ctx, engine)
	if err != nil {
		return grown, err
	}
	for _, there := range have {
		if there.Name == topic.Name {
			topic.Slots = max(topic.Slots, there.Slots)
		}
	}
	err = e.callWithin(ctx, e.shards[0], e.cfg.Patience/3, func(ctx context.Context, first timeout.Engine) (err error) {
		grown, err = first.SetTopic(ctx, topic, false)
		return err
	})
	return grown, err
}

// same reports whether two topics are equal.
func same(a, b timeout.Topic) bool { return reflect.DeepEqual(a, b) }

// firstHas returns a topic as the first shard has it.
func (e *core) firstHas(ctx context.Context, name string) (topic timeout.Topic, found bool, err error) {
	topics, err := e.firstTopics(ctx)
	if i := slices.IndexFunc(topics, func(t timeout.Topic) bool { return t.Name == name }); i >= 0 {
		return topics[i], true, err
	}
	return topic, false, err
}

// firstTopics returns those of the first shard, to whoever is in a call of another one: which is
// not to be blamed where the first one is silent, so that has less time.
func (e *core) firstTopics(ctx context.Context) ([]timeout.Topic, error) {
	return e.topicsOf(ctx, e.shards[0], e.cfg.Patience/3)
}

// topicsOf returns a shard's topics, without that of the mark.
func (e *core) topicsOf(ctx context.Context, s *shard, patience time.Duration) (topics []timeout.Topic, err error) {
	err = e.callWithin(ctx, s, patience, func(ctx context.Context, engine timeout.Engine) (err error) {
		topics, err = visible(ctx, engine)
		return err
	})
	return topics, err
}

func visible(ctx context.Context, engine timeout.Engine) ([]timeout.Topic, error) {
	topics, err := engine.Topics(ctx)
	return slices.DeleteFunc(topics, func(t timeout.Topic) bool { return t.Name == Reserved }), err
}

// Topics is timeout.Engine's: as the first shard has them, or the next one that answers.
func (e *core) Topics(ctx context.Context) ([]timeout.Topic, error) {
	if err := e.enter(ctx); err != nil {
		return nil, err
	}
	var errs []error
	for _, s := range e.shards {
		topics, err := e.topicsOf(ctx, s, e.cfg.Patience)
		if err == nil {
			e.learn(topics...)
			for i := range topics {
				topics[i] = e.wholeOf(topics[i])
			}
			return topics, nil
		}
		errs = append(errs, err)
	}
	return nil, errors.Join(errs...)
}

// DropTopic is timeout.Engine's. All shards must answer: otherwise it is an error, and is to be
// done again.
func (e *core) DropTopic(ctx context.Context, name string) error {
	if err := e.enter(ctx); err != nil {
		return err
	}
	if name == Reserved {
		return noTopic(name)
	}
	for _, s := range e.shards { // so that as little as possible is begun in vain
		if err := e.call(ctx, s, func(ctx context.Context, engine timeout.Engine) error { _, err := engine.Now(ctx); return err }); err != nil {
			return err
		}
	}
	drop := func(s *shard) error {
		return e.callLong(ctx, s, func(ctx context.Context, engine timeout.Engine) error { return engine.DropTopic(ctx, name) })
	}
	// Once the first one has it no more, no other gets it again.
	errs := append([]error{drop(e.shards[0])}, e.together(isNotFirst, drop)[1:]...)
	e.mu.Lock()
	delete(e.slots, name)
	delete(e.fenced, name)
	for _, owed := range e.owed {
		delete(owed, name)
	}
	e.mu.Unlock()
	return allBut(errs, timeout.ErrNotFound)
}

// allBut returns what went wrong, other than an answer that is one only where all say so.
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

// align has a shard have the topics that the first one has: what it has missed while it was away.
// What only the shard has stays: the first one may have been restored from an earlier time.
func (e *core) align(ctx context.Context, s *shard, engine timeout.Engine) error {
	if s.place == 0 {
		return nil
	}
	wanted, err := e.firstTopics(ctx)
	if err != nil {
		return ctx.Err() // later: the first one is away, too
	}
	have, err := visible(ctx, engine)
	if err != nil {
		return err
	}
	there := make(map[string]timeout.Topic, len(have))
	for _, topic := range have {
		there[topic.Name] = topic
	}
	for _, topic := range wanted {
		if has, ok := there[topic.Name]; !ok || !same(has, topic) {
			if err := e.copyTopic(ctx, engine, topic, !ok); err != nil {
				return err
			}
		}
	}
	return nil
}

// heal gives a shard topics that it does not know, and reports whether the first one has any of
// them.
func (e *core) heal(ctx context.Context, engine timeout.Engine, names ...string) (healed bool) {
	topics, err := e.firstTopics(ctx)
	if err != nil {
		return false
	}
	for _, topic := range topics {
		if slices.Contains(names, topic.Name) {
			healed = e.copyTopic(ctx, engine, topic, true) == nil || healed
		}
	}
	return healed
}

// Count is timeout.Engine's: all shards must answer.
func (e *core) Count(ctx context.Context, topic string) (sum timeout.Counts, err error) {
	if err := e.enter(ctx); err != nil {
		return sum, err
	}
	if topic == Reserved {
		return sum, noTopic(topic)
	}
	parts := make([]timeout.Counts, len(e.shards))
	errs := e.together(nil, func(s *shard) error {
		return e.callLong(ctx, s, func(ctx context.Context, engine timeout.Engine) (err error) {
			parts[s.place], err = engine.Count(ctx, topic)
			return err
		})
	})
	if err := allBut(errs, timeout.ErrNotFound); err != nil {
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
