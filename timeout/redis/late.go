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

const (
	// patience is how long Expire waits for a server of a Cluster. Then it leaves its question with the
	// server, and the answer is for a later call. So no server makes the tasks of the others late, and a
	// slow server leases no task in vain.
	patience = 50 * time.Millisecond

	// linger is how long late leases wait for a call of Expire. The worker may have no room, or have ended.
	// Then the leases are given back, with no attempt lost.
	linger = time.Second

	// newsSize is how many late answers wait for a call of Wake to tell of them. It does not tell of more.
	newsSize = 128
)

// late are the questions left with servers of a Cluster, and their answers. A topic leaves no other question
// with a server meanwhile.
type late struct {
	flights sync.WaitGroup
	over    chan struct{} // closed by close

	mu       sync.Mutex // guards the fields below, and left and landed of each flight
	closed   bool
	busy     map[string]map[int]int   // how many questions are left, by topic and lane
	arrivals map[string][]*arrival    // by topic
	news     map[chan string]struct{} // of the calls of Wake
	clock    time.Time                // of a server, in an answer
	read     time.Time                // when that came
}

func newLate() *late {
	return &late{
		over: make(chan struct{}), busy: make(map[string]map[int]int), arrivals: make(map[string][]*arrival),
		news: make(map[chan string]struct{}),
	}
}

// arrival is a late answer.
type arrival struct {
	ask    engine.Ask
	asked  time.Time
	leased []engine.Leased // and not handed out yet
	died   []engine.Key
}

// fresh is how long the leases may still be handed out. A quarter of their time is left then, or more.
func (a *arrival) fresh() time.Duration { return a.ask.Lease - a.ask.Lease/4 - time.Since(a.asked) }

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
	late, flights := x.engine.late, x.engine.flights(calls)
	landed := make(chan *flight, len(flights))
	if !late.begin(flights, func(f *flight) { x.fly(ctx, l, f, visited, landed) }) {
		return calls, nil, x.engine.run(ctx, calls)
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
func (x *expiry) fly(ctx context.Context, l *layout, f *flight, visited map[*invocation]visit, landed chan<- *flight) {
	within, cancel := outlive(ctx)
	defer cancel()
	f.failure = x.engine.run(within, f.calls)
	late := x.engine.late
	if late.land(f) {
		landed <- f
		return
	}
	own := &expiry{engine: x.engine, ask: x.ask}
	own.batch.Settled = make([]bool, len(x.ask.Settle))
	_, _, _ = own.hear(l, f.calls, visited, f.failure) // whoever asks next finds what is wrong
	if own.batch.Now.After(late.now()) {               // it may be long ago
		late.answered(own.batch.Now)
	}
	own.owe(append(own.failed, own.open...))
	own.ask.Lease = 0 // to give back is no question to be left
	if own.fenced {
		own.giveBack(within)
		own.batch.Leased = nil
	}
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
	if own.batch.Leased = late.remove(a); len(own.batch.Leased) > 0 {
		own.giveBack(within)
		late.tell(a.ask.Topic)
	}
}

// wanted reports whether a server is to be asked soon: it has something due then, or is owed outcomes. Otherwise
// each answer of a server far away would lead to another question.
func (x *expiry) wanted(l *layout, lane int) bool {
	var slots []int
	for slot, at := range l.places {
		if x.engine.laneOf(at) == lane {
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

// begin starts flights, unless Close has begun.
func (t *late) begin(flights []*flight, fly func(*flight)) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.closed {
		return false
	}
	for _, f := range flights {
		t.flights.Go(func() { fly(f) })
	}
	return true
}

// leave leaves the flights that have not landed, and returns them.
func (t *late) leave(topic string, flights []*flight) (left []*flight) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, f := range flights {
		if f.landed {
			continue
		}
		f.left, left = true, append(left, f)
		if t.busy[topic] == nil {
			t.busy[topic] = make(map[int]int)
		}
		t.busy[topic][f.lane]++
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

// arrive keeps a late answer for a call of Expire. It reports false if there is nothing to keep.
func (t *late) arrive(lane int, a *arrival) bool {
	topic := a.ask.Topic
	t.mu.Lock()
	defer t.mu.Unlock()
	busy := t.busy[topic]
	if busy[lane]--; busy[lane] == 0 {
		delete(busy, lane)
	}
	if len(busy) == 0 {
		delete(t.busy, topic)
	}
	if len(a.leased)+len(a.died) == 0 {
		return false
	}
	t.arrivals[topic] = append(t.arrivals[topic], a)
	return true
}

// take returns late leases, at most ask.Max, and late deaths. The leases are as long as those of ask, and none
// is of an earlier topic of that name.
func (t *late) take(ask engine.Ask, l *layout) (leased []engine.Leased, died []engine.Key) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, a := range t.arrivals[ask.Topic] {
		if a.ask.Node != ask.Node || a.ask.Lease != ask.Lease {
			continue
		}
		died, a.died = append(died, a.died...), nil
		a.leased = slices.DeleteFunc(a.leased, func(one engine.Leased) bool {
			gen, _ := genOf(one.Token)
			if gen < l.Born || len(leased) == ask.Max {
				return false
			}
			one.Asked = a.asked
			leased = append(leased, one)
			return true
		})
	}
	return leased, died
}

// remove forgets a late answer. It returns the leases not handed out.
func (t *late) remove(a *arrival) []engine.Leased {
	t.mu.Lock()
	defer t.mu.Unlock()
	topic := a.ask.Topic
	t.arrivals[topic] = slices.DeleteFunc(t.arrivals[topic], func(one *arrival) bool { return one == a })
	if len(t.arrivals[topic]) == 0 {
		delete(t.arrivals, topic)
	}
	return a.leased
}

// has reports whether leases of a topic wait for a call of Expire.
func (t *late) has(topic string) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return slices.ContainsFunc(t.arrivals[topic], func(a *arrival) bool { return len(a.leased) > 0 })
}

// listen returns a channel of the topics of late answers, until the end.
func (t *late) listen() (news chan string, end func()) {
	news = make(chan string, newsSize)
	t.mu.Lock()
	defer t.mu.Unlock()
	t.news[news] = struct{}{}
	return news, func() {
		t.mu.Lock()
		defer t.mu.Unlock()
		delete(t.news, news)
	}
}

// tell has all calls of Wake tell of a topic.
func (t *late) tell(topic string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for news := range t.news {
		select {
		case news <- topic:
		default:
		}
	}
}

// lanes returns the servers with a question left of a topic.
func (t *late) lanes(topic string) map[int]int {
	t.mu.Lock()
	defer t.mu.Unlock()
	return maps.Clone(t.busy[topic])
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

// close has late leases be given back, and leaves no more questions. It waits for the answers to those left, as
// long as patience.
func (t *late) close(patience time.Duration) {
	t.mu.Lock()
	if !t.closed {
		t.closed = true
		close(t.over)
	}
	t.mu.Unlock()
	ended := make(chan struct{})
	go func() {
		t.flights.Wait()
		close(ended)
	}()
	select {
	case <-ended:
	case <-time.After(patience):
	}
}
