package keepalive

import (
	"net"
	"sync/atomic"
	"time"

	"github.com/heartwheel-go/heartwheel/keepalive/adapter"
	"github.com/heartwheel-go/heartwheel/keepalive/internal/rules"
)

// report is what a socket says of its connection, for a rules.Socket. A negative duration means unknown.
type report struct {
	unread   int           // bytes arrived, not yet read
	full     bool          // they fill the receive queue: the peer may have to wait with more
	received time.Duration // since bytes last arrived
	sent     time.Duration // since bytes were last sent
	took     time.Duration // since the peer last acknowledged new bytes, at least
	taken    uint64        // bytes arrived and read
	acked    uint64        // bytes acknowledged by the peer
	pending  bool          // the peer has not acknowledged everything written

	flying bool          // some of that was sent
	left   time.Duration // since the last of that was first sent, at least
	busy   time.Duration // for how long some was pending since the opening, in all
	queued int           // bytes of that not sent yet: the peer takes no more at the moment
	room   bool          // there is room for more, of a socket that knows nothing else

	roundTrip   time.Duration // by the kernel's estimate, or 0
	delivery    uint64        // bytes per second lately acknowledged
	unacked     int           // bytes written and not acknowledged, sent or not
	retransmits int           // packets sent again
}

var nothing = report{received: -1, sent: -1, took: -1}

// arrived returns how many bytes have ever arrived, if the socket tells.
func (r report) arrived() uint64 { return r.taken + uint64(r.unread) }

// ask asks the socket of the connection: nothing, if it is closed, or has no socket. It costs two
// system calls on Linux.
func (g *Guard) ask() report {
	r := nothing
	if g.adapter.Control(g.Binding(), func(fd uintptr) { r = ask(fd) }) != nil {
		return nothing
	}
	return r
}

// look is what the rules want to know of the socket, and what it has said.
func (g *Guard) look() (s rules.Socket, r report) {
	k, life := g.keeper, g.life()
	before := time.Since(epoch)
	r = g.ask()
	s = rules.Socket{
		Heard:    rules.Unknown,
		Received: k.ago(r.received),
		Sent:     k.ago(r.sent),
		Signs:    g.signs(r.arrived()),
		Arrived:  r.arrived(),
		Taken:    r.taken,
		Unread:   r.unread,
		Full:     r.full,
		Acked:    r.acked,
		Pending:  r.pending,
		Backlog:  r.queued > 0 && g.flags.Load()&(flagUpgraded|flagBacklog) != 0,
		Took:     k.ago(r.took),

		Waits:      r.pending,
		Flying:     r.flying,
		Rested:     before - r.busy,
		RestedMost: time.Since(epoch) - r.busy + behind,
		Unsent:     r.queued,
	}
	if r.flying {
		s.Left = k.ago(r.left)
	}
	switch a := g.adapter.(type) {
	case *conn:
		a.fill(&s, r.room)
		writing := a.writing.Load()
		s.Backlog = s.Backlog || r.queued > 0 && life != rules.Touches && writing > 0
		s.Unsent += int(writing) << 10
	case adapter.Buffering: // asked after the socket, or bytes on their way could be missed
		n := a.Buffered(g.Binding())
		s.Unread += n
		s.Taken -= min(s.Taken, uint64(n))
	}
	if a, ok := g.adapter.(adapter.Queueing); ok {
		s.Unsent += a.Queued(g.Binding())
	}
	if life != rules.Arrivals && s.Unread > 0 && r.received >= 0 { // they wait for this program, so the error is on the peer's side
		s.Received = min(s.Received.Add(behind), k.now())
	}
	if s.Signs > 0 { // the kernel calls the beginning of a connection an arrival
		s.Heard = s.Received
	}
	if life == rules.Arrivals && s.Heard != rules.Unknown {
		s.Heard = min(s.Heard.Add(behind), k.now()) // the only sign of life
	}
	if life != rules.Touches && r.acked > 0 && (life == rules.ReadsWrite || s.Moves) {
		s.Heard = max(s.Heard, k.ago(r.took))
		s.Signs += r.acked
	}
	return s, r
}

// fills reports whether so many bytes are enough of a receive buffer that the peer may have to wait.
func fills(bytes, buffer int) bool { return buffer > 0 && bytes >= buffer/2 }

// unwrap returns Config.Unwrap, or nil. A panic in it is reported, and leads nowhere.
func (k *Keeper) unwrap() func(net.Conn) net.Conn {
	unwrap := k.policy.Load().Unwrap
	if unwrap == nil {
		return nil
	}
	return func(c net.Conn) (inner net.Conn) {
		k.call("Unwrap", func() { inner = unwrap(c) })
		return inner
	}
}

// noted is what Read and Write note if the socket can't tell.
type noted struct {
	lastRead, lastWrite stamp
	bytes               atomic.Uint64 // read

	blind     bool         // the connection shows no socket, and bytes may wait in it all the same
	headed    bool         // the first bytes may be a PROXY header, for a layer above the socket
	listening atomic.Int32 // running calls that read

	// seen is how many bytes had arrived when the socket was last asked, and seenAt when there
	// were first so many. Only a visit uses them.
	seen   uint64
	seenAt rules.Time
}

// stamp is an instant by the system's clock: reading the wheel's time takes a lock that all connections share. A visit
// converts it once and keeps that, since the wheel forgets old stalls.
type stamp struct {
	since atomic.Int64
	known int64 // what at is of; only a visit uses both
	at    rules.Time
}

var epoch = time.Now()

func (s *stamp) set() { s.since.Store(int64(time.Since(epoch))) }

// time returns the instant by the wheel's time.
func (s *stamp) time(k *Keeper) rules.Time {
	if since := s.since.Load(); since != s.known {
		s.known, s.at = since, k.ago(max(0, time.Since(epoch)-time.Duration(since)))
	}
	return s.at
}

func newNoted() *noted {
	n := new(noted)
	n.lastRead.set()
	n.lastWrite.set()
	return n
}

func (n *noted) read(bytes int) {
	n.lastRead.set()
	n.bytes.Add(uint64(bytes))
}

// fill fills in what the socket of the connection can't tell. Unread bytes have arrived when
// they are first seen, at the latest.
func (c *conn) fill(s *rules.Socket, room bool) {
	n := c.noted
	tells := c.guard.tells()
	s.Moves = tells && c.transfers.Load() > 0
	if n == nil {
		return
	}
	busy := n.listening.Load() == 0
	if tells {
		if n.headed && c.isUnknown() && s.Unread == 0 { // the header is the proxy's word, and the layer may have read more
			s.Signs, s.Hidden = 0, busy && s.Taken > 0
		}
		return
	}
	now := c.keeper.now()
	// A Write that waits is all that is known of the peer's side. After a stop of the process it may be over, and not have
	// said so yet: then Acked is another number, as after a Write.
	s.Waits = c.writing.Load() > 0 && !room
	s.Acked = uint64(n.lastWrite.since.Load()) ^ uint64(c.keeper.lost())<<48
	s.Hidden = n.blind && busy
	s.Taken = n.bytes.Load()
	s.Arrived = s.Taken + uint64(s.Unread)
	s.Signs = s.Arrived
	s.Received = min(now, n.lastRead.time(c.keeper))
	s.Sent = min(now, n.lastWrite.time(c.keeper))
	if s.Arrived > n.seen {
		n.seen, n.seenAt = s.Arrived, now
	}
	if s.Unread > 0 {
		s.Received = max(s.Received, n.seenAt)
	}
}
