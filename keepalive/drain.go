package keepalive

import (
	"context"
	"fmt"
	"iter"
	"time"
)

// drainLog is how often a drain logs how far it is.
const drainLog = time.Second

// Drain closes all connections with [ReasonDrain], evenly spread over a time, so that
// their clients don't all come back at once, and refuses new ones from now on. It
// returns when the last one has gone: nil, or, where ctx is done before, an error
// that wraps ctx.Err and says how many are left; and after Resume, which is an end, too.
// A spread of 0 or less closes them as fast as can be. How far it is can be seen in
// Stats and, once a second, in the log. [Keeper.Resume] ends the refusal.
//
// It waits for OnIdle, OnClose and Farewell, too: called in one of them it would wait
// for itself until ctx is done.
func (k *Keeper) Drain(ctx context.Context, spread time.Duration) error {
	k.draining.Store(true)
	until := time.Now().Add(max(spread, 0))
	logged := time.Now()
	for k.left() > 0 && k.Draining() { // more than once for those that were just coming
		for g, wait := range k.goodbyes(until) {
			for ; wait > 0 && k.Draining(); wait -= drainLog {
				if !sleep(ctx, min(wait, drainLog)) {
					return k.notDrained(ctx)
				}
				logged = k.logDrain(logged)
			}
			if !k.Draining() {
				break
			}
			k.detailsOf(g).condemn(ReasonDrain, true)
			g.member.HandOver()
		}
		for again := time.Now().Add(drainLog); k.left() > 0 && k.Draining() && time.Now().Before(again); {
			if !sleep(ctx, k.pool.Tick()/10) {
				return k.notDrained(ctx)
			}
		}
		logged = k.logDrain(logged)
	}
	if !k.Draining() {
		return fmt.Errorf("keepalive: drain with %d connections left: resumed", k.left())
	}
	return nil
}

// goodbyes goes through the connections, with how long to wait before each but the first
// so that they are evenly spread until the given time.
func (k *Keeper) goodbyes(until time.Time) iter.Seq2[*Guard, time.Duration] {
	return func(yield func(*Guard, time.Duration) bool) {
		all, left := k.Len(), k.Len()
		for m := range k.pool.All() {
			wait := time.Duration(0)
			if left < all {
				wait = time.Until(until) / time.Duration(max(left, 0)+1)
			}
			left--
			if !yield(guardAt(m), wait) {
				return
			}
		}
	}
}

// Resume ends what Drain has begun: new connections are taken again.
func (k *Keeper) Resume() { k.draining.Store(false) }

// Draining reports whether new connections are refused because of Drain.
func (k *Keeper) Draining() bool { return k.draining.Load() }

// logDrain logs how far it is, once in drainLog, and returns when that was last.
func (k *Keeper) logDrain(last time.Time) time.Time {
	if time.Since(last) < drainLog {
		return last
	}
	k.log.Info("keepalive: draining", "conns", k.left())
	return time.Now()
}

// left returns how many connections have not gone: those that are guarded, and those to
// which the last words are being said.
func (k *Keeper) left() int { return k.Len() + int(k.leaving.Load()) }

func (k *Keeper) notDrained(ctx context.Context) error {
	if n := k.left(); n > 0 {
		return fmt.Errorf("keepalive: drain with %d connections left: %w", n, ctx.Err())
	}
	return nil
}

// sleep waits. It reports false where ctx is done first.
func sleep(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(max(d, 0))
	defer timer.Stop()
	select {
	case <-timer.C:
		return ctx.Err() == nil
	case <-ctx.Done():
		return false
	}
}
