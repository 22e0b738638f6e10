package fleet

import (
	"bytes"
	"container/heap"
	"math/rand/v2"
	"net/netip"
	"strconv"
	"time"
)

// Clients are the sessions of one worker's connections. They decide where a connection goes and when
// its client comes back, and leave the connections to the worker. Times are since the start of the
// run. One goroutine may use them.
type Clients struct {
	fleet         *Fleet
	first         int // the number of the first session
	rnd           *rand.Rand
	members       []member // by connection
	registrations []registration
	returns       returns
	byes          map[string]int // by reason of a node's goodbye
	refused       int            // failed attempts to come back
	refusal       error          // the first of them
}

// member is one client.
type member struct {
	node     *node // of its connection, also one being opened
	last     int32 // of its registrations, or -1
	attempts uint8 // failed in a row
	failed   bool  // after a failed attempt: the fleet may know of it nevertheless
	away     bool  // on its way to another node
}

const (
	// Clients of a drained node go elsewhere within returnJitter, and returnShare of a lease.
	returnJitter = time.Second
	returnShare  = 8

	// After a failed attempt a client waits for half to all of firstRetry, and twice as long each
	// time, up to longestRetry.
	firstRetry   = 100 * time.Millisecond
	longestRetry = 2 * time.Second
)

// Clients returns the clients of a worker with so many connections. first is its first session.
func (f *Fleet) Clients(first, conns int) *Clients {
	c := &Clients{
		fleet: f, first: first, rnd: rand.New(rand.NewPCG(rand.Uint64(), rand.Uint64())),
		members: make([]member, conns), byes: map[string]int{},
	}
	for i := range c.members {
		c.members[i].last = -1
	}
	return c
}

// Target returns the node for a connection: at first by its number, later the one with the fewest.
func (c *Clients) Target(i int, first bool) (netip.AddrPort, error) {
	n, err := c.fleet.choose(c.first+i, first)
	c.members[i].node = n
	if err != nil {
		return netip.AddrPort{}, err
	}
	return n.addr, nil
}

// Hello is the first line of a connection.
func (c *Clients) Hello(i int32) []byte {
	return []byte("HELLO " + sessionName(c.first+int(i)) + "\n")
}

// Answer is the meaning of a node's line.
type Answer int

// The answers.
const (
	Other   Answer = iota // a line that any server may say
	Bye                   // the node closes the connection next
	Stray                 // nobody expects it
	Welcome               // the session is registered for the first time
	Back                  // the session is registered again
)

// Answer takes in a line. connecting says that it is the connection's first.
func (c *Clients) Answer(i int32, line []byte, now time.Duration, connecting bool) Answer {
	if reason, ok := bytes.CutPrefix(line, []byte("BYE ")); ok {
		c.byes[string(reason)]++
		return Bye
	}
	rest, ok := bytes.CutPrefix(line, []byte("WELCOME "))
	if !ok {
		return Other
	}
	number, word, _ := bytes.Cut(rest, []byte(" "))
	epoch, err := strconv.ParseInt(string(number), 10, 64)
	kind, known := kinds[string(word)]
	if err != nil || !known || !connecting {
		return Stray
	}
	m := &c.members[i]
	m.attempts = 0
	c.registrations = append(c.registrations, registration{
		session: int32(c.first) + i, node: int32(m.node.number), epoch: epoch, from: now, kind: kind,
	})
	first := m.last < 0
	m.last = int32(len(c.registrations) - 1)
	if m.away {
		m.away = false
		c.fleet.away.Add(-1)
	}
	if first {
		return Welcome
	}
	return Back
}

// Closed is for a registered session after the end of its connection. It reports whether the node has
// ended, too. Then the client may come back.
func (c *Clients) Closed(i int32, now time.Duration) (withNode bool) {
	m := &c.members[i]
	c.registrations[m.last].to = now
	c.fleet.leave(m.node)
	switch state := m.node.state.Load(); {
	case state == up:
		return false
	case state == draining:
		c.comeBack(i, now+c.within(min(returnJitter, c.fleet.cfg.Lease/returnShare)))
	case state == killed && !c.fleet.stays[c.first+int(i)]:
		c.comeBack(i, now+c.within(c.fleet.cfg.comebacks()))
	}
	return true
}

// Cut marks the last registration of a session: the node, still up, has closed a live connection.
func (c *Clients) Cut(i int32) { c.registrations[c.members[i].last].cut = true }

// TurnedAway is for a connection that ended before its session was registered. Its client tries again.
func (c *Clients) TurnedAway(i int32, now time.Duration, err error) {
	m := &c.members[i]
	if m.node != nil {
		c.fleet.leave(m.node)
	}
	m.failed = true
	c.refused++
	if c.refusal == nil {
		c.refusal = err
	}
	pause := min(firstRetry<<min(m.attempts, 10), longestRetry)
	m.attempts++
	c.comeBack(i, now+pause/2+c.within(pause/2))
}

// within returns a random duration below a limit.
func (c *Clients) within(limit time.Duration) time.Duration {
	return time.Duration(c.rnd.Int64N(int64(limit)))
}

// comeBack has a client look for another node at a time.
func (c *Clients) comeBack(i int32, at time.Duration) {
	if m := &c.members[i]; !m.away {
		m.away = true
		c.fleet.away.Add(1)
	}
	heap.Push(&c.returns, comeback{at, i})
}

// Next returns when the next client comes back, and whether any does.
func (c *Clients) Next() (at time.Duration, ok bool) {
	if len(c.returns) == 0 {
		return 0, false
	}
	return c.returns[0].at, true
}

// Pop returns the connection of the next client to come back. There must be one.
func (c *Clients) Pop() (conn int32) { return heap.Pop(&c.returns).(comeback).conn }

// comeback is the time for a client to look for another node.
type comeback struct {
	at   time.Duration
	conn int32
}

// returns has the earliest first.
type returns []comeback

func (r returns) Len() int           { return len(r) }
func (r returns) Less(i, j int) bool { return r[i].at < r[j].at }
func (r returns) Swap(i, j int)      { r[i], r[j] = r[j], r[i] }
func (r *returns) Push(x any)        { *r = append(*r, x.(comeback)) }
func (r *returns) Pop() any {
	last := len(*r) - 1
	x := (*r)[last]
	*r = (*r)[:last]
	return x
}
