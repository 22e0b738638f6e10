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
//
// With was, the first shard compares. So after an error it may have the change already: then a repeated call returns
// ErrChanged, and one with the topic as it is has all shards copy it. With a zero was they get it later, as with onlyNew.
func (e *core) SetTopic(ctx context.Context, wanted engine.Topic, onlyNew bool, was ...engine.Topic) (kept engine.Topic, err error) {
	if wanted.Name == engine.Reserved {
		return kept, fmt.Errorf("%w: topic %s is that of the markers of shards", engine.ErrArgument, engine.Reserved)
	}
	wanted, was = e.shareOf(wanted), slices.Clone(was)
	for i := range was {
		was[i] = e.shareOf(was[i])
	}
	err = e.call(ctx, e.shards[0], func(ctx context.Context, eng engine.Engine) (err error) {
		kept, err = eng.SetTopic(ctx, wanted, onlyNew, was...)
		return err
	})
	if err != nil {
		return kept, err
	}
	e.mu.Lock()
	e.slots[kept.Name] = kept.Slots
	e.mu.Unlock()
	errs := e.together(isNotFirst, func(s *shard) error {
		return e.call(ctx, s, func(ctx context.Context, eng engine.Engine) error {
			if onlyNew { // most often it is new everywhere
				if there, err := eng.SetTopic(ctx, kept, true); err != nil || same(there, kept) {
					return err
				}
			}
			return e.align(ctx, s, eng)
		})
	})
	if err = errors.Join(errs...); ctx.Err() == nil && (onlyNew || len(was) > 0 && was[0].Name == "") {
		err = nil // it is new
	}
	return e.wholeOf(kept), err
}

// shareOf returns a topic for a shard, with a share of MaxDead.
func (e *core) shareOf(whole engine.Topic) engine.Topic {
	if whole.MaxDead >= 0 {
		whole.MaxDead = min((cmp.Or(whole.MaxDead, engine.DefaultMaxDead)-1)/len(e.shards)+1, math.MaxInt/len(e.shards))
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

// Pause implements engine.Engine. It is like SetTopic for an existing topic. Each shard ends a pause by its own clock.
func (e *core) Pause(ctx context.Context, name string, paused bool, until time.Time) (kept engine.Topic, err error) {
	if name == engine.Reserved {
		return kept, noTopic(name)
	}
	err = e.call(ctx, e.shards[0], func(ctx context.Context, eng engine.Engine) (err error) {
		kept, err = eng.Pause(ctx, name, paused, until)
		return err
	})
	if err != nil {
		return kept, err
	}
	errs := e.together(isNotFirst, func(s *shard) error {
		return e.call(ctx, s, func(ctx context.Context, eng engine.Engine) error { return e.align(ctx, s, eng) })
	})
	return e.wholeOf(kept), errors.Join(errs...)
}

func isNotFirst(index int) bool { return index > 0 }

// same reports whether two topics are equal.
func same(a, b engine.Topic) bool { return reflect.DeepEqual(a, b) }

// topicsOf returns a shard's topics, without engine.Reserved.
func (e *core) topicsOf(ctx context.Context, s *shard, timeout time.Duration) (topics []engine.Topic, err error) {
	err = e.callWithin(ctx, s, timeout, func(ctx context.Context, eng engine.Engine) (err error) {
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
	var errs []error
	for _, s := range e.shards {
		topics, err := e.topicsOf(ctx, s, e.cfg.CallTimeout)
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

func isNotFound(err error) bool { return errors.Is(err, engine.ErrNotFound) }

// allBut joins the errors other than answer. It returns answer only if all shards say so.
func allBut(errs []error, answer error) error {
	said := len(errs) > 0
	for _, err := range errs {
		said = said && errors.Is(err, answer)
	}
	if said {
		return errs[0]
	}
	return errors.Join(slices.DeleteFunc(errs, func(err error) bool { return errors.Is(err, answer) })...)
}

var errNoFirst = errors.New("the first shard does not tell its topics")

// align makes the topics of a shard those of the first one, and returns when it finds them equal, or has copied all that
// differ. So of two calls at the same time, the last one to look has copied the last state. The shard's other topics
// stay: the first shard may have been restored from an earlier time.
//
// Within a process, changes of a shard take turns, and each looks in its turn. Otherwise one with an earlier state
// could resume a topic for a moment, after Pause has returned. Another process still can.
//
// The first shard has only a third of CallTimeout: the other shard must not count as away if the first one is silent.
func (e *core) align(ctx context.Context, s *shard, eng engine.Engine) error {
	if s.index == 0 {
		return nil
	}
	var copied []engine.Topic
	for inTurn := false; ; {
		have, err := visible(ctx, eng)
		if err != nil {
			return err
		}
		there := make(map[string]engine.Topic, len(have))
		for _, topic := range have {
			there[topic.Name] = topic
		}
		wanted, err := e.topicsOf(ctx, e.shards[0], e.cfg.CallTimeout/3)
		if err != nil {
			return fmt.Errorf("%w: %w", errNoFirst, err)
		}
		wanted = slices.DeleteFunc(wanted, func(t engine.Topic) bool { return same(t, there[t.Name]) })
		if len(wanted) == 0 || slices.EqualFunc(wanted, copied, same) {
			return nil
		}
		if !inTurn {
			select {
			case s.copying <- struct{}{}:
				defer func() { <-s.copying }()
			case <-ctx.Done():
				return ctx.Err()
			}
			inTurn = true
			continue
		}
		copied = wanted
		for _, topic := range wanted {
			if err := e.copyTopic(ctx, eng, topic, there[topic.Name].Slots); err != nil {
				return err
			}
		}
	}
}

// copyTopic copies a topic to a shard with that many slots of it. If it still has more, the first shard gets them: it was
// restored from a time with fewer slots, and nobody would look into the additional ones.
func (e *core) copyTopic(ctx context.Context, eng engine.Engine, topic engine.Topic, slots int) error {
	there, err := eng.SetTopic(ctx, topic, false)
	if errors.Is(err, engine.ErrConflict) && slots > topic.Slots {
		topic.Slots = slots
		return e.callWithin(ctx, e.shards[0], e.cfg.CallTimeout/3, func(ctx context.Context, first engine.Engine) error {
			_, err := first.SetTopic(ctx, topic, false)
			return err
		})
	}
	if err == nil && (there.Paused != topic.Paused || !there.PausedUntil.Equal(topic.PausedUntil)) { // SetTopic does not change them
		_, err = eng.Pause(ctx, topic.Name, topic.Paused, topic.PausedUntil)
	}
	if isNotFound(err) || errors.Is(err, engine.ErrConflict) {
		return nil // it has just been dropped, or has grown
	}
	return err
}

// alignLater is align for a shard that works without it. If the first shard is away, that is for later.
func (e *core) alignLater(ctx context.Context, s *shard, eng engine.Engine) error {
	err := e.align(ctx, s, eng)
	if errors.Is(err, errNoFirst) {
		return ctx.Err()
	}
	return err
}

// heal gives a shard the topics that it has missed, and reports whether there may be some.
func (e *core) heal(ctx context.Context, s *shard, eng engine.Engine) bool {
	return s.index > 0 && e.align(ctx, s, eng) == nil
}

// Count implements engine.Engine. All shards must answer.
func (e *core) Count(ctx context.Context, topic string) (sum engine.Counts, err error) {
	if topic == engine.Reserved {
		return sum, noTopic(topic)
	}
	parts := make([]engine.Counts, len(e.shards))
	errs := e.together(nil, func(s *shard) error {
		return e.callLong(ctx, s, func(ctx context.Context, eng engine.Engine) (err error) {
			parts[s.index], err = eng.Count(ctx, topic)
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
