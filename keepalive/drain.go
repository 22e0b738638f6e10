package keepalive

import (
	"context"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/heartwheel-go/heartwheel/keepalive/internal/rules"
)

const (
	drainLog  = time.Second           // how often a drain logs its progress
	drainPoll = 10 * time.Millisecond // how often it looks at the rest
)

// Drain refuses new connections from now on and closes all others with [ReasonDrain], evenly
// spread over a time, so that their clients don't all come back at once. It returns after the
// end of the last connection. A spread of 0 or less closes all as fast as can be. A connection
// of net/http ends between two requests, see package httpkeepalive.
//
// If ctx is done first, or is done already, Drain no longer waits for requests. The connections
// due by then are closed, and their farewells still get Closing.Timeout: Drain waits for
// that long, or for twice as long if a function of the Config hangs. The others stay. Drain then
// returns an error wrapping ctx.Err(), with the number of connections left, or else of those cut in
// the middle of a request. After [Keeper.Resume] the error says "resumed" instead.
//
// Drain waits for functions of the Config. Called in one of them, it would wait for itself
// until ctx is done.
func (k *Keeper) Drain(ctx context.Context, spread time.Duration) error {
	return k.drain(ctx, spread, nil)
}

// drain is Drain. If told is not nil, drain calls it when all connections are told, and no exchange is awaited, or ctx is
// done.
func (k *Keeper) drain(ctx context.Context, spread time.Duration, told func()) error {
	if told != nil {
		k.shutting.Store(true)
	}
	k.draining.Store(true)
	logged := time.Now()
	wait := func(d time.Duration) bool {
		if time.Since(logged) >= drainLog {
			k.log.Info("keepalive: draining", "conns", k.remaining())
			logged = time.Now()
		}
		return sleep(ctx, d) && k.draining.Load()
	}
	leaving := k.sayGoodbye(spread, wait)
	cut := 0
	hurry := func() {
		if ctx.Err() != nil {
			cut = max(cut, k.hurry(leaving))
		}
	}
	if told != nil {
		awaitExchanges(ctx, leaving, wait)
		hurry()
		told()
	}
	for leaving = unended(leaving); k.remaining() > 0 || len(leaving) > 0; leaving = unended(leaving) {
		if !wait(drainPoll) {
			if hurry(); ctx.Err() != nil {
				k.awaitFarewells(leaving)
			}
			return k.notDrained(ctx, cut, leaving)
		}
	}
	if cut > 0 {
		return k.notDrained(ctx, cut, nil)
	}
	return nil
}

// unended returns connections without the first ones, as far as they have ended.
func unended(guards []*Guard) []*Guard {
	for len(guards) > 0 && guards[0].hasEnded() {
		guards = guards[1:]
	}
	return guards
}

// awaitExchanges waits until a program that is told drops no exchange: net/http answers no request after that unless it
// has called its handler. So idle connections have their last word, and the Keeper ends them by a look at their sockets.
// For what only their peers and handlers can end, such as half a header, it waits for the time of a last word, or a third
// of the time that ctx has, and for the rest until two thirds: the program needs some of it. Connections that drop
// nothing stay meanwhile: their last word begins when the program is told.
func awaitExchanges(ctx context.Context, leaving []*Guard, wait func(time.Duration) bool) {
	begun := time.Now()
	patience, most := rules.LastWord, time.Duration(math.MaxInt64)
	if end, ok := ctx.Deadline(); ok {
		left := time.Until(end)
		patience, most = min(patience, left/3), left/3*2
	}
	i, settled := 0, begun
	for waited := time.Duration(0); waited < most; waited = time.Since(begun) {
		isAwaited := (*Guard).mayBegin
		if waited >= patience {
			isAwaited = (*Guard).waits
		}
		i = next(leaving, i, isAwaited)
		if i < 0 || time.Since(settled) > rules.LastWord/3 {
			settled = time.Now()
			for _, g := range leaving {
				g.settle()
			}
		}
		if i < 0 || !wait(drainPoll) {
			return
		}
	}
}

// next returns the index of a guard that is awaited, from one on and around, or -1.
func next(guards []*Guard, from int, isAwaited func(*Guard) bool) int {
	for n := range guards {
		if i := (from + n) % len(guards); isAwaited(guards[i]) {
			return i
		}
	}
	return -1
}

// sayGoodbye dismisses all connections, evenly spread over a time: in each tick as many as are
// due by then, until none is left or waiting is cut short. It returns those dismissed, and those that have left by
// themselves if none is left. It misses nobody: a connection not seen by it has joined later, and admit sees the drain.
func (k *Keeper) sayGoodbye(spread time.Duration, wait func(time.Duration) bool) (dismissed []*Guard) {
	guards := slices.Collect(k.Guards())
	begin, tick := time.Now(), k.policy.Load().Tick
	for i, g := range guards {
		for time.Since(begin) < time.Duration(float64(spread)*(float64(i)/float64(len(guards)))) {
			if k.remaining() == 0 {
				return guards
			}
			if !wait(min(tick, drainPoll)) {
				return guards[:i]
			}
		}
		g.dismiss(ReasonDrain, toDrain)
	}
	return guards
}

// toDrain returns the state of a connection of a drain: none stays.
func toDrain(s rules.State) (rules.State, bool) { return s.Dismissed(rules.Drain), true }

// hurry closes dismissed connections at once. It returns how many it has cut in the middle of a request.
func (k *Keeper) hurry(dismissed []*Guard) (cut int) {
	for _, g := range dismissed {
		if g.isOpen() && g.condemn(ReasonDrain) {
			cut++
		}
	}
	return cut
}

// awaitFarewells waits for the end of dismissed connections that were hurried.
func (k *Keeper) awaitFarewells(dismissed []*Guard) {
	for end := time.Now().Add(2 * k.policy.Load().Closing.Timeout); time.Now().Before(end); time.Sleep(drainPoll) {
		if dismissed = unended(dismissed); len(dismissed) == 0 && k.unclosed.Load() == 0 {
			return
		}
	}
}

// Resume ends what Drain has begun: new connections are taken again.
func (k *Keeper) Resume() {
	k.draining.Store(false)
	k.shutting.Store(false)
}

// remaining returns how many connections have not ended: the guarded ones, and those with a
// farewell under way. One that is just ending may count twice.
func (k *Keeper) remaining() int { return k.Len() + int(k.unclosed.Load()) }

// notDrained returns the error of a drain that is over, or nil. Of the dismissed connections, one that its program has closed
// is still there until OnClose has returned.
func (k *Keeper) notDrained(ctx context.Context, cut int, dismissed []*Guard) error {
	dismissed = slices.DeleteFunc(dismissed, (*Guard).hasEnded)
	n := max(k.remaining(), len(dismissed))
	switch {
	case n == 0 && cut == 0:
		return nil
	case n == 0:
		return fmt.Errorf("keepalive: drain cut %d connections in the middle of a request: %w", cut, ctx.Err())
	case ctx.Err() != nil:
		return fmt.Errorf("keepalive: drain with %d connections left: %w", n, ctx.Err())
	}
	return fmt.Errorf("keepalive: drain with %d connections left: resumed", n)
}

// sleep waits. It reports false if ctx is done first.
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
