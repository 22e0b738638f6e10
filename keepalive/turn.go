package keepalive

import (
	"sync"
	"time"
)

// turns bounds how many connections are closed in a second, as a leaky bucket does (the
// generic cell rate algorithm). Who is one too many waits in a queue, first in, first
// out. Who is heard meanwhile is passed over and takes nobody's turn.
type turns struct {
	mu      sync.Mutex
	next    time.Time // when the next one may be closed
	waiting []waiting
	serving bool // a goroutine is at it, only while somebody waits

	// back has something in it after a turn was given back.
	back chan struct{}
}

// waiting is a connection that is to be closed, as long as its deadline has that stamp;
// or whatever it has, where that is 0.
type waiting struct {
	guard *Guard
	stamp uint64
}

// take takes a turn, if there is one now. A tick's worth is given out at once.
func (t *turns) take(perSecond int, tick time.Duration) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return len(t.waiting) == 0 && t.takeAt(time.Now(), perSecond, tick)
}

// takeAt is take. t.mu must be held.
func (t *turns) takeAt(now time.Time, perSecond int, tick time.Duration) bool {
	if perSecond == 0 {
		return true
	}
	if t.next.Before(now) {
		t.next = now
	}
	if t.next.Sub(now) >= tick {
		return false
	}
	t.next = t.next.Add(time.Second / time.Duration(perSecond))
	return true
}

// queues reports whether a connection that has been silent has to wait for its turn to
// be closed.
func (k *Keeper) queues(p *policy, g *Guard, why Reason) bool {
	if k.turns.take(p.MaxClosePerSecond, p.Tick) {
		return false
	}
	k.enqueue(g, why)
	return true
}

// maxQueued is how long a connection is left alone that waits for its turn. After that it
// is looked at, and goes to the end of the queue.
const maxQueued = time.Hour

// enqueue has a connection that has been silent wait for its turn.
func (k *Keeper) enqueue(g *Guard, why Reason) {
	if k.postpone(g, queued, 0, why, maxQueued) {
		k.wait(waiting{g, g.details.Load().stampOf()})
	}
}

// queuesAnyway is queues for a connection that is to be closed although it was heard.
func (k *Keeper) queuesAnyway(p *policy, g *Guard, d *details, why Reason) bool {
	if k.turns.take(p.MaxClosePerSecond, p.Tick) {
		return false
	}
	d.condemn(why, false)
	k.wait(waiting{g, 0})
	return true
}

func (k *Keeper) wait(w waiting) {
	t := &k.turns
	t.mu.Lock()
	defer t.mu.Unlock()
	t.waiting = append(t.waiting, w)
	if !t.serving {
		t.serving = true
		go k.serveTurns()
	}
}

// serveTurns hands those over whose turn has come, until nobody waits.
func (k *Keeper) serveTurns() {
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		select {
		case <-k.closing:
			return
		case <-k.turns.back:
		case <-timer.C:
		}
		p := k.policy.Load()
		served, more := k.turns.serve(time.Now(), p.MaxClosePerSecond, p.Tick)
		for _, w := range served {
			w.guard.details.Load().giveTurn()
			w.guard.member.HandOver()
		}
		if !more {
			return
		}
		timer.Reset(p.Tick)
	}
}

// giveBack gives a turn back that a connection has had which lives.
func (t *turns) giveBack(perSecond int) {
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

// isIn reports whether a connection still waits.
func (w waiting) isIn() bool {
	if w.stamp != 0 {
		return w.stamp == w.guard.member.Stamp()
	}
	_, ok := w.guard.member.Value()
	return ok && w.guard.details.Load().isCondemned()
}

// serve takes those out of the queue whose turn it is, and reports whether there are
// more.
func (t *turns) serve(now time.Time, perSecond int, tick time.Duration) (served []waiting, more bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for len(t.waiting) > 0 {
		w := t.waiting[0]
		if w.isIn() {
			if !t.takeAt(now, perSecond, tick) {
				return served, true
			}
			served = append(served, w)
		}
		t.waiting[0] = waiting{}
		t.waiting = t.waiting[1:]
	}
	t.waiting, t.serving = nil, false
	return served, false
}

// stampOf returns the stamp of the stage that a connection has entered last.
func (d *details) stampOf() uint64 {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.stamp
}

// giveTurn has a connection closed that has waited for its turn.
func (d *details) giveTurn() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.turn, d.doomed = true, d.doom != 0
	d.lookBy.Store(0) // also where it is being looked at in this moment, and goes back
}

// isCondemned reports whether the connection is to be closed, now or later.
func (d *details) isCondemned() bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.doom != 0
}

// hasTurn reports whether it is the turn of a connection that has been silent, and
// waits for it.
func (d *details) hasTurn() bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.turn && d.stage == queued
}
