package api

import (
	"context"
	"sync/atomic"
	"time"

	"golang.org/x/sync/semaphore"
)

const (
	// minFresh is the least time for which figures are reused.
	minFresh = 500 * time.Millisecond

	// freshShare bounds the engine's time for figures to a tenth of the whole.
	freshShare = 10
)

// cache keeps the engine's last answer. Only one caller asks at a time. Other callers wait for it.
type cache[T any] struct {
	take    func(context.Context) (T, bool)
	limit   time.Duration // for take
	share   int           // how many times as long as it took an answer is reused, if that is more than minFresh
	changes atomic.Uint64 // calls of forget

	turn  *semaphore.Weighted // guards the rest
	last  T
	of    uint64    // changes before last was asked for
	fresh time.Time // until when last is reused
}

// newCache returns a cache of the answers of take. take also reports whether the engine answered. A failure is reused for
// minFresh only: otherwise a long silence of the engine would count for long after its end.
func newCache[T any](share int, limit time.Duration, take func(context.Context) (T, bool)) *cache[T] {
	return &cache[T]{take: take, limit: limit, share: share, turn: semaphore.NewWeighted(1)}
}

// get returns an answer of take, perhaps from a moment ago, or an error if ctx is done before take is asked.
func (c *cache[T]) get(ctx context.Context) (last T, err error) {
	if c.turn.Acquire(ctx, 1) != nil {
		return last, context.Cause(ctx)
	}
	defer c.turn.Release(1)
	changes, began := c.changes.Load(), time.Now()
	if changes == c.of && began.Before(c.fresh) {
		return c.last, nil
	}
	// The answer serves other requests, too, so it does not end with the first one.
	asking, cancel := context.WithTimeout(context.WithoutCancel(ctx), c.limit)
	defer cancel()
	last, answered := c.take(asking)
	keep := minFresh
	if answered {
		keep = max(minFresh, time.Duration(c.share)*time.Since(began))
	}
	c.last, c.of, c.fresh = last, changes, time.Now().Add(keep)
	return last, nil
}

// forget makes the next get ask after this call.
func (c *cache[T]) forget() { c.changes.Add(1) }
