package main

import (
	"bytes"
	"container/heap"
	"math/rand/v2"
	"net/netip"
	"strconv"
	"time"
)

// clients are the sessions of a worker's connections: who they are to the fleet, and whether they
// come back when their node is gone.
type clients struct {
	rnd           *rand.Rand
	members       []member // by connection
	registrations []registration
	returns       returns
	byes          map[string]int // reasons for which nodes have said goodbye
	refused       int            // attempts to come back that have failed
	refusal       error          // the first of them
}

// member is one client.
type member struct {
	node     *node // that it has a connection to, or is opening one to
	last     int32 // of its registrations, or -1
	attempts uint8 // that have failed in a row
	failed   bool  // one attempt has, of which the fleet may know nevertheless
	away     bool  // it is to find a node, once more
}

const (
	// Clients whose node is drained go elsewhere within returnJitter, and returnShare of a lease.
	returnJitter = time.Second
	returnShare  = 8

	// A client whose attempt to come back fails waits for between half and all of firstRetry,
	// and each time for twice as long up to longestRetry.
	firstRetry   = 100 * time.Millisecond
	longestRetry = 2 * time.Second
)

func newClients(conns int) *clients {
	c := &clients{rnd: rand.New(rand.NewPCG(rand.Uint64(), rand.Uint64())), members: make([]member, conns), byes: map[string]int{}}
	for i := range c.members {
		c.members[i].last = -1
	}
	return c
}

// target returns where a connection is to go.
func (w *worker) target(i int) (netip.AddrPort, error) {
	if w.clients == nil {
		return w.server(w.first + i), nil
	}
	n, err := w.fleet.choose(w.first+i, w.line == nil)
	w.clients.members[i].node = n
	if err != nil {
		return netip.AddrPort{}, err
	}
	return n.addr, nil
}

// hello is what a connection says first.
func (w *worker) hello(i int32) []byte {
	if w.clients == nil {
		return []byte("PING\n") // its answer says that we are served
	}
	return []byte("HELLO " + sessionName(w.first+int(i)) + "\n")
}

// fleetAnswer takes in what only gateways say, and reports whether it is that.
func (w *worker) fleetAnswer(i int32, c *conn, line []byte, now time.Duration) bool {
	if reason, ok := bytes.CutPrefix(line, []byte("BYE ")); ok { // the close follows
		w.clients.byes[string(reason)]++
		return true
	}
	rest, ok := bytes.CutPrefix(line, []byte("WELCOME "))
	if !ok {
		return false
	}
	number, word, _ := bytes.Cut(rest, []byte(" "))
	epoch, err := strconv.ParseInt(string(number), 10, 64)
	kind, known := kinds[string(word)]
	if err != nil || !known || c.state != connecting {
		w.result.stray++
		return true
	}
	m := &w.clients.members[i]
	m.attempts = 0
	w.clients.registrations = append(w.clients.registrations, registration{
		session: int32(w.first) + i, node: int32(m.node.number), epoch: epoch, from: now, kind: kind,
	})
	first := m.last < 0
	m.last = int32(len(w.clients.registrations) - 1)
	if m.away {
		m.away = false
		w.fleet.away.Add(-1)
	}
	if first {
		w.welcome(c, now)
		return true
	}
	c.state = live
	w.waiting--
	w.series.count(opened, now)
	return true
}

// left is for a session whose connection is closed, and reports whether that is since its node
// is not there any more.
func (w *worker) left(i int32, c *conn, now time.Duration) bool {
	m := &w.clients.members[i]
	w.clients.registrations[m.last].to = now
	w.fleet.leave(m.node)
	state := m.node.state.Load()
	if state == up {
		return false
	}
	if c.goSilent > 0 { // it is not the server that closes it for that
		c.goSilent = 0
		w.isClosed()
		w.result.silent--
		w.result.live++
		if c.state == silent {
			w.series.count(silentGone, now)
		}
	}
	c.state = gone
	w.series.count(closedWithNode, now)
	session := w.first + int(i)
	switch {
	case state == draining:
		w.comeBack(i, now+time.Duration(w.clients.rnd.Int64N(int64(min(returnJitter, w.cfg.lease/returnShare)))))
	case state == killed && !w.fleet.stays[session]:
		w.comeBack(i, now+time.Duration(w.clients.rnd.Int64N(int64(w.cfg.comebacks()))))
	}
	return true
}

// comeBack has a client find another node at a time.
func (w *worker) comeBack(i int32, at time.Duration) {
	if m := &w.clients.members[i]; !m.away {
		m.away = true
		w.fleet.away.Add(1)
	}
	heap.Push(&w.clients.returns, comeback{at, i})
}

// turnedAway is for a connection that never came to be. Its client tries again.
func (w *worker) turnedAway(i int32, now time.Duration, err error) {
	m := &w.clients.members[i]
	if m.node != nil {
		w.fleet.leave(m.node)
	}
	m.failed = true
	w.clients.refused++
	if w.clients.refusal == nil {
		w.clients.refusal = err
	}
	pause := min(firstRetry<<min(m.attempts, 10), longestRetry)
	m.attempts++
	w.comeBack(i, now+pause/2+time.Duration(w.clients.rnd.Int64N(int64(pause/2))))
}

// reopen begins to open the connections of those who come back.
func (w *worker) reopen(now time.Duration) {
	for w.clients.returns.next() <= now && w.waiting < w.window() && w.last == 0 {
		i := heap.Pop(&w.clients.returns).(comeback).conn
		c := &w.conns[i]
		c.sent, c.partial = 0, nil
		if err := w.connect(c, int(i)); err != nil {
			w.failed(i, c, err)
			continue
		}
		c.state = connecting
		w.waiting++
	}
}

// comeback is a client that is to find another node at a time.
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

// next returns when the next one comes back.
func (r returns) next() time.Duration {
	if len(r) == 0 {
		return longest
	}
	return r[0].at
}
