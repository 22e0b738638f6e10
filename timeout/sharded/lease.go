package sharded

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/heartwheel-go/heartwheel/timeout/engine"
)

// Parts implements engine.Parted: a part is a shard, or a part of a shard with several.
func (e *core) Parts(topic string, slots []int) (parts []int) {
	in, _ := e.asked(topic, slots, 0)
	for index := range in {
		if !in[index] {
			continue
		}
		inner := []int{0}
		if parted, ok := e.shards[index].known().(engine.Parted); ok {
			inner = parted.Parts(topic, slots)
		}
		for _, part := range inner {
			parts = append(parts, e.partOf(index, part))
		}
	}
	return parts
}

// Part implements engine.Parted.
func (e *core) Part(key engine.Key) int {
	index := ShardOf(key, len(e.shards))
	return e.partOf(index, engine.PartOf(e.shards[index].known(), key))
}

// partOf returns the number of a part of a shard. Zero means all of the shard.
func (e *core) partOf(index, part int) int { return 1 + index + part*len(e.shards) }

// asked reports for each shard whether a question about some slots is for it, and returns the part of the shard.
// Zero as the part means all shards with these slots.
func (e *core) asked(topic string, slots []int, part int) (in []bool, inner int) {
	if part > 0 {
		in = make([]bool, len(e.shards))
		in[(part-1)%len(e.shards)] = true
		return in, (part - 1) / len(e.shards)
	}
	e.mu.Lock()
	of := e.slots[topic]
	e.mu.Unlock()
	return shardsOf(topic, slots, of, len(e.shards)), 0
}

// Lease implements engine.Engine. It asks the shard of Ask.Part, or one shard after the other if that is zero.
func (e *core) Lease(ctx context.Context, ask engine.Ask) (engine.Batch, error) {
	if ask.Topic == engine.Reserved {
		return engine.Batch{}, noTopic(ask.Topic)
	}
	settle := make([][]int, len(e.shards)) // the indices of their outcomes in Ask.Settle
	for i, outcome := range ask.Settle {
		index := ShardOf(outcome.Token.Key, len(e.shards))
		settle[index] = append(settle[index], i)
	}
	in, inner := e.asked(ask.Topic, ask.Slots, ask.Part)
	x := leaseCall{core: e, batch: engine.Batch{Settled: make([]bool, len(ask.Settle))}}
	turn := int(e.turn.Add(1))
	for n := range e.shards {
		index := (turn + n) % len(e.shards)
		one := ask
		one.Settle, one.Max, one.Part = nil, 0, 0
		for _, i := range settle[index] {
			one.Settle = append(one.Settle, ask.Settle[i])
		}
		if in[index] {
			one.Max, one.Part = max(0, ask.Max-len(x.batch.Leased)), inner
		}
		if len(one.Settle) > 0 || one.Max > 0 {
			x.ask(ctx, e.shards[index], one, settle[index])
		}
	}
	if x.answers+len(x.errs) == 0 { // there was nothing to ask, but for the time and whether the topic exists
		ask.Max, ask.Part = 0, 0
		for index := 0; index < len(e.shards) && x.answers == 0; index++ {
			x.ask(ctx, e.shards[index], ask, nil)
		}
	}
	if x.answers == 0 {
		return engine.Batch{}, allBut(x.errs, engine.ErrNotFound)
	}
	switch {
	case ask.Max > 0 && len(x.batch.Leased) == ask.Max && ask.Part == 0:
		x.batch.Next = x.batch.Now // other shards may have something due
	case x.answers > 1 && !x.next.IsZero(): // their clocks differ
		x.batch.Next = x.batch.Now.Add(time.Until(x.next) - time.Millisecond)
	}
	if err := errors.Join(slices.DeleteFunc(x.errs, isNotFound)...); err != nil {
		return x.batch, fmt.Errorf("%w: %w", engine.ErrPartial, err)
	}
	return x.batch, nil
}

// leaseCall is the answer to a call of Lease, as far as it is known.
type leaseCall struct {
	*core
	batch   engine.Batch
	next    time.Time // the first Batch.Next, by this process's clock
	errs    []error
	answers int // of shards
}

// ask asks a shard, and adds its answer. The outcomes of the question are at these indices in Batch.Settled.
func (x *leaseCall) ask(ctx context.Context, s *shard, ask engine.Ask, settle []int) {
	var batch engine.Batch
	begun := time.Now()
	err := x.call(ctx, s, func(ctx context.Context, e engine.Engine) (err error) {
		batch, err = e.Lease(ctx, ask)
		if isNotFound(err) && x.heal(ctx, s, e) {
			batch, err = e.Lease(ctx, ask)
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
	for n, i := range settle {
		x.batch.Settled[i] = n < len(batch.Settled) && batch.Settled[n]
	}
	x.batch.Leased = append(x.batch.Leased, batch.Leased...)
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
