package keepalive

import (
	"time"

	"github.com/heartwheel-go/heartwheel/keepalive/adapter"
	"github.com/heartwheel-go/heartwheel/keepalive/internal/rules"
)

// evidence is what a socket says of its connection. A negative duration means unknown.
type evidence struct {
	unread   int           // bytes arrived, not yet read
	full     bool          // they fill the receive queue: the peer may have to wait with more
	received time.Duration // since bytes last arrived
	sent     time.Duration // since bytes were last sent
	acked    time.Duration // since the peer last acknowledged new bytes, at least
	taken    uint64        // bytes arrived and read
	answered uint64        // bytes acknowledged by the peer
	pending  bool          // the peer has not acknowledged everything written
	unsent   bool          // some of that is not sent yet: the peer takes no more at the moment

	roundTrip   time.Duration // by the kernel's estimate, or 0
	delivery    uint64        // bytes per second lately acknowledged
	unacked     int           // bytes written and not acknowledged, sent or not
	retransmits int           // packets sent again
}

var nothing = evidence{received: -1, sent: -1, acked: -1}

// arrived returns how many bytes have ever arrived, if the socket tells.
func (e evidence) arrived() uint64 { return e.taken + uint64(e.unread) }

// ask asks the socket of the connection: nothing, if it is closed, or has no socket. It costs two
// system calls on Linux.
func (g *Guard) ask() evidence {
	e := nothing
	if g.adapter.Control(g.Binding(), func(fd uintptr) { e = ask(fd) }) != nil {
		return nothing
	}
	return e
}

// look is what the rules want to know of the socket, and what it has said.
func (g *Guard) look() (s rules.Socket, e evidence) {
	k, life := g.keeper, g.life()
	e = g.ask()
	s = rules.Socket{
		Heard:    rules.Unknown,
		Received: k.ago(e.received),
		Sent:     k.ago(e.sent),
		Signs:    e.arrived(),
		Arrived:  e.arrived(),
		Taken:    e.taken,
		Unread:   e.unread,
		Full:     e.full,
		Acked:    e.answered,
		Pending:  e.pending,
		Backlog:  e.unsent && g.flags.Load()&(flagUpgraded|flagBacklog) != 0,
		Took:     k.ago(e.acked),
	}
	switch a := g.adapter.(type) {
	case *conn:
		a.tell(&s)
		s.Backlog = s.Backlog || e.unsent && life != rules.Touches && a.writing.Load() > 0
	case adapter.Buffering: // asked after the socket, or bytes on their way could be missed
		n := a.Buffered(g.Binding())
		s.Unread += n
		s.Taken -= min(s.Taken, uint64(n))
	}
	if s.Signs > 0 { // the kernel calls the beginning of a connection an arrival
		s.Heard = s.Received
	}
	if life == rules.Arrivals && s.Heard != rules.Unknown {
		s.Heard = min(s.Heard.Add(behind), k.now()) // the only sign of life
	}
	if life != rules.Touches && e.answered > 0 && (life == rules.ReadsWrite || s.Moves) {
		s.Heard = max(s.Heard, k.ago(e.acked))
		s.Signs += e.answered
	}
	return s, e
}

// fills reports whether so many bytes are enough of a receive buffer that the peer may have to wait.
func fills(bytes, buffer int) bool { return buffer > 0 && bytes >= buffer/2 }
