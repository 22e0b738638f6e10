package keepalive

import (
	"context"
	"fmt"
	"time"
)

// drainLog is how often a drain logs how far it is.
const drainLog = time.Second

// Drain closes all connections with [ReasonDrain], evenly spread over a time, so that
// their clients don't all come back at once, and refuses new ones from now on. It
// returns when the last one has gone: nil, or, where ctx is done before, an error
// that wraps ctx.Err and says how many are left; and after Resume, which is an end, too.
// Spread of 0 or less closes them as
// fast as can be. How far it is can be seen in Stats and, once a second, in the log.
// [Keeper.Resume] ends the refusal.
func (k *Keeper) Drain(ctx context.Context, spread time.Duration) error {
	k.draining.Store(true)
	begin, next := time.Now(), time.Now().Add(drainLog)
	for k.left() > 0 && k.Draining() { // more than once for those that were just coming
		left, all := k.Len(), k.Len()
		for m := range k.pool.All() {
			g, ok := m.Value()
			if !ok {
				continue
			}
			if !k.Draining() {
				break
			}
			share := 1 - float64(left)/float64(max(all, 1))
			at := begin.Add(time.Duration(float64(max(spread, 0)) * max(share, 0)))
			left--
			for wait := time.Until(at); wait > 0; wait = time.Until(at) {
				if !sleep(ctx, min(wait, time.Until(next))) {
					return k.notDrained(ctx)
				}
				next = k.logDrain(next)
			}
			k.detailsOf(g).condemn(ReasonDrain, 0)
			g.member.HandOver()
			next = k.logDrain(next)
		}
		if !sleep(ctx, k.pool.Tick()/10) {
			return k.notDrained(ctx)
		}
	}
	if !k.Draining() {
		return fmt.Errorf("keepalive: drain with %d connections left: resumed", k.Len())
	}
	return nil
}

// Resume ends what Drain has begun: new connections are taken again.
func (k *Keeper) Resume() { k.draining.Store(false) }

// Draining reports whether new connections are refused because of Drain.
func (k *Keeper) Draining() bool { return k.draining.Load() }

func (k *Keeper) logDrain(next time.Time) time.Time {
	if time.Now().Before(next) {
		return next
	}
	k.log.Info("keepalive: draining", "conns", k.left())
	return time.Now().Add(drainLog)
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
