package keepalive

import (
	"sync"
	"time"
)

// pace bounds how many connections are closed in a second, as a leaky bucket does (the generic
// cell rate algorithm). Excess closes are queued, first in, first out. A connection heard
// meanwhile is passed over, and takes no turn.
type pace struct {
	mu      sync.Mutex
	next    time.Time // when the next connection may be closed
	queue   []*Guard
	serving bool // a goroutine serves the queue

	// back has something in it after a turn was given back.
	back chan struct{}
}

// take takes a turn for a connection. If there is none now, the connection is queued.
func (t *pace) take(g *Guard, p *policy) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	if len(t.queue) == 0 && t.takeAt(time.Now(), p) {
		return true
	}
	if !g.queued { // or it was heard meanwhile, and has its place still
		g.queued = true
		t.queue = append(t.queue, g)
	}
	if !t.serving {
		t.serving = true
		go t.serve(g.keeper)
	}
	return false
}

// takeAt takes a turn, if there is one. The turns of a round are given out at once. t.mu must be
// held.
func (t *pace) takeAt(now time.Time, p *policy) bool {
	perSecond := p.Closing.MaxPerSecond
	if perSecond == 0 {
		return true
	}
	if t.next.Before(now) {
		t.next = now
	}
	if t.next.Sub(now) >= round(p) {
		return false
	}
	t.next = t.next.Add(time.Second / time.Duration(perSecond))
	return true
}

// round is the time from one look at the queue to the next: a tick. Since the bound is one of a
// second, it is a second at most.
func round(p *policy) time.Duration { return min(p.Tick, time.Second) }

// giveBack refunds the turn of a connection found alive.
func (t *pace) giveBack(perSecond int) {
	if perSecond == 0 {
		return
	}
	t.mu.Lock()
	t.next = t.next.Add(-time.Second / time.Duration(perSecond))
	t.mu.Unlock()
	select {
	case t.back <- struct{}{}:
	default:
	}
}

// serve gives turns to queued connections, until none is queued.
func (t *pace) serve(k *Keeper) {
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		select {
		case <-k.closing.Done():
			return
		case <-t.back:
		case <-timer.C:
		}
		p := k.policy.Load()
		served, more := t.shift(time.Now(), p)
		for _, g := range served {
			g.giveTurn()
		}
		if !more {
			return
		}
		timer.Reset(round(p))
	}
}

// shift takes the connections due for their turn out of the queue, and reports whether there
// are more.
func (t *pace) shift(now time.Time, p *policy) (served []*Guard, more bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for len(t.queue) > 0 {
		if g := t.queue[0]; g.waits() {
			if !t.takeAt(now, p) {
				return served, true
			}
			served = append(served, g)
		}
		t.queue[0].queued = false
		t.queue[0] = nil
		t.queue = t.queue[1:]
	}
	t.queue, t.serving = nil, false
	return served, false
}

// waits reports whether the connection still waits for its turn.
func (g *Guard) waits() bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.isOpen() && g.state().Waits(g.quiet())
}

// giveTurn has the connection decided about once more, at its turn.
func (g *Guard) giveTurn() { g.decideSoon(func(*more) { g.turn = true }) }
