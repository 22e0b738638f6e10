package redis

import (
	"cmp"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/heartwheel-go/heartwheel/timeout/engine"
)

const (
	// patience is how much longer than usual Expire waits for a server of a Cluster. Then it leaves its
	// question with the server, and the answer is for a later call. So no server makes the tasks of the
	// others late, and a slow server leases no task in vain.
	patience = 50 * time.Millisecond

	// usualMost is the longest usual time of a server, in times of patience. It is more than the way around
	// the world takes.
	usualMost = 8

	// linger is how long late leases wait for a call of Expire. The worker may have no room, or have ended.
	// Then the leases are given back, with no attempt lost.
	linger = time.Second

	// newsSize is how many late answers wait for a call of Wake to tell of them. It does not tell of more.
	newsSize = 128
)

// late are the questions left with servers of a Cluster, and their answers. A topic leaves no other question
// with a server meanwhile.
type late struct {
	work sync.WaitGroup // flights, and what is repaid
	over chan struct{}  // closed by close

	mu       sync.Mutex // guards the fields below, and left and landed of each flight
	closed   bool
	busy     map[string]map[int]int   // how many questions are left, by topic and lane
	arrivals map[string][]*arrival    // by topic
	news     map[chan string]struct{} // of the calls of Wake
	usually  map[int]time.Duration    // about the shortest time of an answer lately, by lane
	vain     map[question]bool        // those with leases given back, to be waited for once
	clock    time.Time                // of a server, in an answer
	read     time.Time                // when that came
}

func newLate() *late {
	return &late{
		over: make(chan struct{}), busy: make(map[string]map[int]int), arrivals: make(map[string][]*arrival),
		news: make(map[chan string]struct{}), usually: make(map[int]time.Duration), vain: make(map[question]bool),
	}
}

// question is a topic and the lane of a server.
type question struct {
	topic string
	lane  int
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

// begin starts work that Close waits for, unless Close has begun.
func (t *late) begin(all ...func()) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.closed {
		return false
	}
	for _, work := range all {
		t.work.Go(work)
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

// usual are usual times of servers, as far as they are known.
type usual struct {
	slowest time.Duration // of a question's servers
	fastest time.Duration // of all servers
	vain    time.Duration // of the slowest one with leases of the topic given back in vain
}

// usual returns what is known of a question's servers. Servers that are to lease are waited for in vain no more.
func (t *late) usual(topic string, flights []*flight) (u usual) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, took := range t.usually {
		u.fastest = cmp.Or(min(u.fastest, took), took)
	}
	for _, f := range flights {
		took := t.usually[f.lane]
		u.slowest = max(u.slowest, took)
		if asked := (question{topic, f.lane}); t.vain[asked] && f.leases() {
			u.vain = max(u.vain, took)
			delete(t.vain, asked)
		}
	}
	return u
}

// wait returns how long to wait for servers: for patience longer than the slowest takes. An always slow one makes the
// others late by three times patience at most, unless it has leased in vain. What the others have leased keeps half
// of its time.
func (u usual) wait(patience, lease time.Duration) time.Duration {
	longest := max(lease/2-patience, 0)
	if u.vain > longest {
		u.vain = 0 // it would lease in vain again
	}
	return min(max(min(u.slowest, u.fastest+2*patience), u.vain), longest) + patience
}

// took notes how long an answer took.
func (t *late) took(lane int, took, patience time.Duration) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.usually[lane] = adapt(t.usually[lane], took, patience)
}

// adapt returns the usual time of a server after an answer. The server may be far away, or only slow this time: the
// usual time rises slowly, and falls at once.
func adapt(usual, took, patience time.Duration) time.Duration {
	if took <= usual {
		return took
	}
	return usual + (min(took, 2*(usual+patience), usualMost*patience)-usual)/8
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

// remove forgets a late answer. It returns the leases not handed out: the server has leased them in vain.
func (t *late) remove(lane int, a *arrival) []engine.Leased {
	t.mu.Lock()
	defer t.mu.Unlock()
	topic := a.ask.Topic
	t.arrivals[topic] = slices.DeleteFunc(t.arrivals[topic], func(one *arrival) bool { return one == a })
	if len(t.arrivals[topic]) == 0 {
		delete(t.arrivals, topic)
	}
	if len(a.leased) > 0 {
		t.vain[question{topic, lane}] = true
	}
	return a.leased
}

// has reports whether leases of a topic wait for a call of Expire.
func (t *late) has(topic string) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return slices.ContainsFunc(t.arrivals[topic], func(a *arrival) bool { return len(a.leased) > 0 })
}

// forget forgets the leases of topics given back in vain, but for those that are still there.
func (t *late) forget(there map[string]bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	maps.DeleteFunc(t.vain, func(one question, _ bool) bool { return !there[one.topic] })
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
		t.work.Wait()
		close(ended)
	}()
	select {
	case <-ended:
	case <-time.After(patience):
	}
}
