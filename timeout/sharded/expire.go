package sharded

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/heartwheel-go/heartwheel/timeout/engine"
)

// Parts implements engine.Parted: a part is a shard, or a part of a shard with several.
func (e *core) Parts(topic string, slots []int) (parts []int) {
	e.mu.Lock()
	of := e.slots[topic]
	e.mu.Unlock()
	for place, in := range places(topic, slots, of, len(e.shards)) {
		if !in {
			continue
		}
		inner := []int{0}
		if parted, ok := e.shards[place].known().(engine.Parted); ok {
			inner = parted.Parts(topic, slots)
		}
		for _, part := range inner {
			parts = append(parts, e.partOf(place, part))
		}
	}
	return parts
}

// Part implements engine.Parted.
func (e *core) Part(key engine.Key) int {
	place := Place(key, len(e.shards))
	return e.partOf(place, engine.PartOf(e.shards[place].known(), key))
}

// partOf returns the number of a part of a shard. Zero means all of the shard.
func (e *core) partOf(place, part int) int { return 1 + place + part*len(e.shards) }

// placeOfPart returns the shard of a part, and innerPart the part of that shard.
func (e *core) placeOfPart(part int) int { return (part - 1) % len(e.shards) }
func (e *core) innerPart(part int) int   { return (part - 1) / len(e.shards) }

// Expire implements engine.Engine. It asks the shard of Ask.Part, or one shard after the other if that is zero.
func (e *core) Expire(ctx context.Context, ask engine.Ask) (engine.Batch, error) {
	if err := e.enter(ctx); err != nil {
		return engine.Batch{}, err
	}
	if ask.Topic == engine.Reserved {
		return engine.Batch{}, noTopic(ask.Topic)
	}
	x := e.newExpiry(ask)
	turn := int(e.turn.Add(1))
	for n := range x.shares {
		if place := (turn + n) % len(x.shares); x.asks(place) {
			x.askShard(ctx, place)
		}
	}
	if x.answers+len(x.errs) == 0 { // none had anything to be asked
		x.askAny(ctx)
	}
	return x.end()
}

// expiry is a call of Expire.
type expiry struct {
	*core
	ask     engine.Ask
	shares  []share // by place
	batch   engine.Batch
	next    time.Time // the first Batch.Next, by this process's clock
	errs    []error
	answers int // of shards
}

// share is the part of a shard in a call.
type share struct {
	settle []engine.Outcome
	index  []int // of these outcomes, in Ask.Settle
	looks  bool  // it may have something to lease
	part   int   // of the shard; zero means all of it
}

func (e *core) newExpiry(ask engine.Ask) *expiry {
	x := &expiry{core: e, ask: ask, shares: make([]share, len(e.shards))}
	x.batch.Settled = make([]bool, len(ask.Settle))
	for i, outcome := range ask.Settle {
		s := &x.shares[Place(outcome.Token.Key, len(e.shards))]
		s.settle = append(s.settle, outcome)
		s.index = append(s.index, i)
	}
	if ask.Part > 0 {
		s := &x.shares[e.placeOfPart(ask.Part)]
		s.looks, s.part = ask.Max > 0, e.innerPart(ask.Part)
		return x
	}
	e.mu.Lock()
	of := e.slots[ask.Topic]
	e.mu.Unlock()
	for place, in := range places(ask.Topic, ask.Slots, of, len(e.shards)) {
		x.shares[place].looks = in && ask.Max > 0
	}
	return x
}

// asks reports whether a shard is to be asked: for its outcomes, or for due tasks.
func (x *expiry) asks(place int) bool {
	s := &x.shares[place]
	return len(s.settle) > 0 || s.looks && len(x.batch.Leased) < x.ask.Max
}

// askAny asks for the time, and whether the topic exists.
func (x *expiry) askAny(ctx context.Context) {
	if x.ask.Part > 0 {
		x.askShard(ctx, x.placeOfPart(x.ask.Part))
		return
	}
	for place := 0; place < len(x.shares) && x.answers == 0; place++ {
		x.askShard(ctx, place)
	}
}

// askShard asks a shard, and takes its answer.
func (x *expiry) askShard(ctx context.Context, place int) {
	s, share := x.shards[place], &x.shares[place]
	ask := x.ask
	ask.Settle, ask.Max, ask.Part = share.settle, 0, share.part
	if share.looks {
		ask.Max = x.ask.Max - len(x.batch.Leased)
	}
	var batch engine.Batch
	begun := time.Now()
	err := x.call(ctx, s, func(ctx context.Context, e engine.Engine) (err error) {
		batch, err = e.Expire(ctx, ask)
		if errors.Is(err, engine.ErrNotFound) && place > 0 && x.heal(ctx, s, e, ask.Topic) {
			batch, err = e.Expire(ctx, ask)
		}
		return err
	})
	if err != nil {
		x.errs = append(x.errs, err)
	}
	if err != nil && !errors.Is(err, engine.ErrPartial) {
		return
	}
	x.answers++
	for n, i := range share.index {
		x.batch.Settled[i] = n < len(batch.Settled) && batch.Settled[n]
	}
	x.batch.Leased = append(x.batch.Leased, batch.Leased...)
	x.batch.Died = append(x.batch.Died, batch.Died...)
	if x.batch.Now.Before(batch.Now) {
		x.batch.Now = batch.Now
	}
	if !batch.Next.IsZero() {
		x.batch.Next = batch.Next
		if at := begun.Add(batch.Next.Sub(batch.Now)); x.next.IsZero() || at.Before(x.next) {
			x.next = at
		}
	}
}

// end puts the answer together.
func (x *expiry) end() (engine.Batch, error) {
	if x.answers == 0 {
		return engine.Batch{}, allBut(x.errs, engine.ErrNotFound)
	}
	switch {
	case x.ask.Max > 0 && len(x.batch.Leased) == x.ask.Max && x.ask.Part == 0:
		x.batch.Next = x.batch.Now // other shards may have something due
	case x.answers > 1 && !x.next.IsZero(): // their clocks differ
		x.batch.Next = x.batch.Now.Add(time.Until(x.next) - time.Millisecond)
	}
	for _, err := range x.errs {
		if !errors.Is(err, engine.ErrNotFound) {
			return x.batch, fmt.Errorf("%w: %w", engine.ErrPartial, err)
		}
	}
	return x.batch, nil
}
