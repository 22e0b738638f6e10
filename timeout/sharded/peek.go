package sharded

import (
	"context"
	"errors"
	"time"

	"github.com/heartwheel-go/heartwheel/timeout/engine"
)

// Peek implements engine.Peeker: the wait for a topic is the shortest one of its shards.
func (e *core) Peek(ctx context.Context, peeks []engine.Peek) ([]time.Duration, error) {
	if err := e.enter(ctx); err != nil {
		return nil, err
	}
	waits := make([]time.Duration, len(peeks))
	parts := make([]peekPart, len(e.shards))
	for i, p := range peeks {
		waits[i] = engine.NothingDue
		in, inner := e.asked(p.Topic, p.Slots, p.Part)
		p.Part = inner
		for index := range parts {
			if part := &parts[index]; in[index] {
				part.peeks, part.which = append(part.peeks, p), append(part.which, i)
			}
		}
	}
	errs := e.together(func(index int) bool { return len(parts[index].peeks) > 0 }, func(s *shard) error {
		part := &parts[s.index]
		return e.call(ctx, s, func(ctx context.Context, eng engine.Engine) (err error) {
			peeker, ok := eng.(engine.Peeker)
			if !ok {
				return engine.ErrUnsupported
			}
			part.waits, err = peeker.Peek(ctx, part.peeks)
			return err
		})
	})
	for index, part := range parts {
		if errors.Is(errs[index], engine.ErrUnsupported) {
			return nil, errs[index]
		}
		for n, i := range part.which {
			if errs[index] != nil {
				waits[i] = 0
			} else {
				waits[i] = min(waits[i], part.waits[n])
			}
		}
	}
	return waits, ctx.Err()
}

// peekPart is what one shard is asked, and its answer.
type peekPart struct {
	peeks []engine.Peek
	which []int // of the peeks of the call
	waits []time.Duration
}
