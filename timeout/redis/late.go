package redis

import (
	"cmp"
	"context"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/heartwheel-go/heartwheel/timeout/engine"
)

// patience is how long Expire waits for a server of a Cluster. Then it leaves its question with that
// server, and what the server leases comes with a later call. So no server makes the tasks of the others
// late, and a server that is only slow leases no task in vain.
const patience = 50 * time.Millisecond

// late is what Expire has left with servers of a Cluster, and what came of it.
type late struct {
	flights sync.WaitGroup

	mu     sync.Mutex // guards the fields below, and left and landed of each flight
	closed bool
	busy   map[int]int // how many questions are left with a server, by lane
	leases map[string][]arrival
	died   map[string][]engine.Key          // as leases, by topic
	wakes  map[*func(topic string)]struct{} // of the calls of Wake
	clock  time.Time                        // of a server, in the latest answer
	read   time.Time                        // when that came
}

// arrival is a lease that came late.
type arrival struct {
	engine.Leased
	end time.Time // of the lease, by this process's clock
}

// flight is a question to one server.
type flight struct {
	lane         int
	calls        []*invocation
	failure      error
	left, landed bool
}

// leaves reports whether Expire may leave questions. An Ask without a lease is about outcomes alone, and its
// caller wants to know what became of each.
func (x *expiry) leaves() bool { return x.engine.redis.Clustered() && x.ask.Lease > 0 }

// run asks the servers. It returns the calls that have ended, and those left with their servers.
func (x *expiry) run(ctx context.Context, l *layout, calls []*invocation, visited map[*invocation]visit) (ended, left []*invocation, failure error) {
	if !x.leaves() {
		return calls, nil, x.engine.run(ctx, calls)
	}
	if ctx.Err() != nil { // flights don't end with it
		return nil, nil, context.Cause(ctx)
	}
	late, flights := &x.engine.late, x.engine.flights(calls)
	landed := make(chan *flight, len(flights))
	for _, f := range flights {
		if !late.begin(func() { x.fly(ctx, l, f, visited, landed) }) {
			return nil, nil, engine.ErrClosed
		}
	}
	take := func(f *flight) {
		ended, failure = append(ended, f.calls...), cmp.Or(failure, f.failure)
	}
	over := time.NewTimer(x.engine.patience)
	defer over.Stop()
	for n := range flights {
		select {
		case f := <-landed:
			take(f)
		case <-over.C:
			leaves := late.leave(flights)
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
func (x *expiry) fly(ctx context.Context, l *layout, f *flight, visited map[*invocation]visit, landed chan<- *flight) {
	within, cancel := outlive(ctx)
	defer cancel()
	f.failure = x.engine.run(within, f.calls)
	if x.engine.late.land(f) {
		landed <- f
		return
	}
	own := &expiry{engine: x.engine, ask: x.ask, begun: x.begun}
	own.batch.Settled = make([]bool, len(x.ask.Settle))
	_, _, _ = own.hear(l, f.calls, visited, f.failure) // whoever asks next finds what is wrong
	own.owe(append(own.failed, own.open...))
	if own.fenced {
		own.giveBack(within)
		own.batch.Leased = nil
	}
	x.engine.late.arrived(f.lane, own)
}

// outlive returns a context that ends when ctx is due to end, and not when it is cancelled.
func outlive(ctx context.Context) (context.Context, context.CancelFunc) {
	within := context.WithoutCancel(ctx)
	if end, ok := ctx.Deadline(); ok {
		return context.WithDeadline(within, end)
	}
	return within, func() {}
}

// begin starts a flight, unless the engine is closed.
func (t *late) begin(fly func()) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	if !t.closed {
		t.flights.Go(fly)
	}
	return !t.closed
}

// leave leaves the flights that have not landed, and returns them.
func (t *late) leave(flights []*flight) (left []*flight) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, f := range flights {
		if f.landed {
			continue
		}
		f.left, left = true, append(left, f)
		if t.busy == nil {
			t.busy = make(map[int]int)
		}
		t.busy[f.lane]++
	}
	return left
}

// land reports whether a flight is still waited for.
func (t *late) land(f *flight) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	f.landed = !f.left
	return f.landed
}

// arrived keeps what came of a question left with a server, and has whoever may want it ask.
func (t *late) arrived(lane int, x *expiry) {
	topic, end := x.ask.Topic, x.begun.Add(x.ask.Lease)
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.busy[lane]--; t.busy[lane] == 0 {
		delete(t.busy, lane)
	}
	now := time.Now()
	maps.DeleteFunc(t.leases, func(_ string, waiting []arrival) bool { // nobody asks for this topic any more
		return !slices.ContainsFunc(waiting, func(a arrival) bool { return now.Before(a.end) })
	})
	if len(x.batch.Leased)+len(x.batch.Died) > 0 && t.leases == nil {
		t.leases, t.died = make(map[string][]arrival), make(map[string][]engine.Key)
	}
	for _, leased := range x.batch.Leased {
		leased.Asked = x.begun
		t.leases[topic] = append(t.leases[topic], arrival{leased, end})
	}
	if len(x.batch.Died) > 0 {
		t.died[topic] = append(t.died[topic], x.batch.Died...)
	}
	for wake := range t.wakes {
		(*wake)(topic)
	}
}

// take returns at most most leases that came late, and all tasks that died so. Leases that have ended
// meanwhile are forgotten: the server leases these tasks again.
func (t *late) take(topic, node string, most int) (leased []engine.Leased, died []engine.Key) {
	t.mu.Lock()
	defer t.mu.Unlock()
	now := time.Now()
	left := slices.DeleteFunc(t.leases[topic], func(a arrival) bool {
		if !now.Before(a.end) {
			return true
		}
		if a.Node != node || len(leased) == most {
			return false
		}
		leased = append(leased, a.Leased)
		return true
	})
	if died = t.died[topic]; len(left) > 0 {
		t.leases[topic] = left
	} else {
		delete(t.leases, topic)
	}
	delete(t.died, topic)
	return leased, died
}

// has reports whether something of a topic waits for a call of Expire.
func (t *late) has(topic string) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return len(t.leases[topic]) > 0
}

// forget forgets a topic.
func (t *late) forget(topic string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	delete(t.leases, topic)
	delete(t.died, topic)
}

// listen has wake called when something has arrived, until the end.
func (t *late) listen(wake func(topic string)) (end func()) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.wakes == nil {
		t.wakes = make(map[*func(string)]struct{})
	}
	t.wakes[&wake] = struct{}{}
	return func() {
		t.mu.Lock()
		defer t.mu.Unlock()
		delete(t.wakes, &wake)
	}
}

// lanes returns the servers with a question left.
func (t *late) lanes() map[int]int {
	t.mu.Lock()
	defer t.mu.Unlock()
	return maps.Clone(t.busy)
}

// answered notes the clock of a server.
func (t *late) answered(clock time.Time) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.clock, t.read = clock, time.Now()
}

// now is the servers' clock, as far as it is known, or zero.
func (t *late) now() time.Time {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.clock.IsZero() {
		return time.Time{}
	}
	return t.clock.Add(time.Since(t.read)).Truncate(time.Millisecond)
}

// close waits for the questions that are left. There are no others after it.
func (t *late) close() {
	t.mu.Lock()
	t.closed = true
	t.mu.Unlock()
	t.flights.Wait()
}
