package redis

import (
	"cmp"
	"context"
	"slices"
	"time"
)

// flight is a question to one server.
type flight struct {
	lane         int
	calls        []*invocation
	failure      error
	left, landed bool
}

// leases reports whether the server is to lease tasks.
func (f *flight) leases() bool {
	return slices.ContainsFunc(f.calls, func(c *invocation) bool { return c.room > 0 })
}

// leaves reports whether Expire may leave questions. An Ask without a lease is about outcomes alone, and its
// caller wants to know what became of each.
func (x *expiry) leaves() bool { return x.engine.redis.Clustered() && x.ask.Lease > 0 }

// run asks the servers. It returns the calls that have ended, and those left with their servers.
func (x *expiry) run(ctx context.Context, l *layout, calls []*invocation) (ended, left []*invocation, failure error) {
	if !x.leaves() {
		return calls, nil, x.engine.run(ctx, calls)
	}
	if ctx.Err() != nil { // flights don't end with it
		return nil, nil, context.Cause(ctx)
	}
	late, flights := x.engine.late, x.engine.flights(calls)
	landed := make(chan *flight, len(flights))
	flying := make([]func(), len(flights))
	for i, f := range flights {
		flying[i] = func() { x.fly(ctx, l, f, landed) }
	}
	if !late.begin(flying...) {
		return calls, nil, x.engine.run(ctx, calls)
	}
	take := func(f *flight) {
		ended, failure = append(ended, f.calls...), cmp.Or(failure, f.failure)
	}
	over := time.NewTimer(late.usual(x.ask.Topic, flights).wait(x.engine.patience, x.ask.Lease))
	defer over.Stop()
	for n := range flights {
		select {
		case f := <-landed:
			take(f)
		case <-over.C:
			leaves := late.leave(x.ask.Topic, flights)
			for range len(flights) - len(leaves) - n {
				take(<-landed)
			}
			for _, f := range leaves {
				left = append(left, f.calls...)
			}
			return ended, left, failure
		}
	}
	return ended, nil, failure
}

// flights deals calls out to their servers.
func (e *Engine) flights(calls []*invocation) (flights []*flight) {
	byLane := make(map[int]*flight)
	for _, c := range calls {
		lane := e.laneOf(c.at)
		f := byLane[lane]
		if f == nil {
			f = &flight{lane: lane}
			byLane[lane] = f
			flights = append(flights, f)
		}
		f.calls = append(f.calls, c)
	}
	return flights
}

// fly asks one server. Its answer goes to the call of Expire, or to a later one if that waits no more.
func (x *expiry) fly(ctx context.Context, l *layout, f *flight, landed chan<- *flight) {
	within, cancel := outlive(ctx)
	defer cancel()
	late, began := x.engine.late, time.Now()
	f.failure = x.engine.run(within, f.calls)
	if f.failure == nil {
		late.took(f.lane, time.Since(began), x.engine.patience)
	}
	if late.land(f) {
		landed <- f
		return
	}
	own := &expiry{engine: x.engine, ask: x.ask}
	own.batch.Settled = make([]bool, len(x.ask.Settle))
	_, _, _ = own.hear(context.WithoutCancel(ctx), l, f.calls, f.failure) // whoever asks next finds what is wrong
	if own.batch.Now.After(late.now()) {                                  // it may be long ago
		late.answered(own.batch.Now)
	}
	own.owe(append(own.failed, own.open...))
	own.ask.Lease = 0 // to give back is no question to be left
	a := &arrival{x.ask, x.begun, own.batch.Leased, own.batch.Died}
	kept := late.arrive(f.lane, a)
	if kept || x.wanted(l, f.lane) {
		late.tell(a.ask.Topic)
	}
	if !kept {
		return
	}
	select {
	case <-time.After(min(x.engine.linger, a.fresh())):
	case <-late.over:
	}
	if own.batch.Leased = late.remove(f.lane, a); len(own.batch.Leased) > 0 {
		own.giveBack()
		late.tell(a.ask.Topic)
	}
}

// wanted reports whether a server is to be asked soon: it has something due then, or is owed outcomes. Otherwise
// each answer of a server far away would lead to another question.
func (x *expiry) wanted(l *layout, lane int) bool {
	var slots []int
	for _, slot := range l.Topic.Asked(x.ask.Slots) {
		if x.engine.laneOf(l.places[slot]) == lane {
			slots = append(slots, slot)
		}
	}
	next := l.hints.next(slots, 0)
	return x.engine.owed.owes(x.ask.Topic, lane) || next > 0 && next <= x.engine.late.now().Add(owedRest).UnixMilli()
}

// outlive returns a context that ends when ctx is due to end, and not when it is cancelled.
func outlive(ctx context.Context) (context.Context, context.CancelFunc) {
	within := context.WithoutCancel(ctx)
	if end, ok := ctx.Deadline(); ok {
		return context.WithDeadline(within, end)
	}
	return within, func() {}
}

// busy returns the servers with a question of this topic left with them.
func (x *expiry) busy() map[int]int {
	if !x.leaves() {
		return nil
	}
	return x.engine.late.lanes(x.ask.Topic)
}

// idle returns the slots whose servers have no question left with them.
func (x *expiry) idle(l *layout, slots []int) []int {
	busy := x.busy()
	if len(busy) == 0 {
		return slots
	}
	idle := slices.DeleteFunc(slices.Clone(slots), func(slot int) bool { return busy[x.engine.laneOf(l.places[slot])] > 0 })
	x.away = x.away || len(idle) < len(slots)
	return idle
}

// putOff takes the outcomes out whose servers have another question left with them.
func (x *expiry) putOff(l *layout, settle map[int][]int) {
	busy := x.busy()
	if len(busy) == 0 {
		return
	}
	for slot, which := range settle {
		lane := x.engine.laneOf(l.places[slot])
		if busy[lane] == 0 {
			continue
		}
		x.failed, x.away = append(x.failed, which...), true
		for _, i := range which {
			if x.waits == nil {
				x.waits = make(map[int]int)
			}
			x.waits[i] = lane
		}
		delete(settle, slot)
	}
}
