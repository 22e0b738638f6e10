package keepalive

import (
	"time"

	"github.com/heartwheel-go/heartwheel/keepalive/internal/rules"
)

// evidence is what a socket says of its connection. A negative duration means that it does
// not tell.
type evidence struct {
	unread   int           // bytes that have arrived and were not read
	received time.Duration // since bytes last arrived
	sent     time.Duration // since bytes were last sent
	acked    time.Duration // since the peer last acknowledged new bytes, at least
	taken    uint64        // bytes that have arrived and were read
	answered uint64        // bytes that the peer has acknowledged
	pending  bool          // the peer has not acknowledged all that was written
}

var nothing = evidence{received: -1, sent: -1, acked: -1}

// arrived returns how many bytes have ever arrived, if the socket tells.
func (e evidence) arrived() uint64 { return e.taken + uint64(e.unread) }

// look asks the socket of the connection. It costs two system calls on Linux.
func (g *Guard) look() *rules.Socket {
	e := nothing
	if g.adapter.Control(g, func(fd uintptr) { e = ask(fd) }) != nil {
		e = nothing // closed, or without a socket
	}
	k, life := g.keeper, rules.Life(g.flags.Load()&lifeMask)
	s := &rules.Socket{
		Heard:    rules.Unknown,
		Received: k.ago(e.received),
		Sent:     k.ago(e.sent),
		Signs:    e.arrived(),
		Arrived:  e.arrived(),
		Taken:    e.taken,
		Unread:   e.unread,
		Acked:    e.answered,
		Pending:  e.pending,
	}
	if c, ok := g.adapter.(*conn); ok {
		c.tell(s)
	}
	if s.Arrived > 0 { // the kernel calls the beginning of a connection an arrival
		s.Heard = s.Received
	}
	if life == rules.Arrivals && s.Heard != rules.Unknown {
		s.Heard = min(s.Heard.Add(behind), k.now()) // nothing else says that it lives
	}
	if life != rules.Touches && e.answered > 0 && (life == rules.ReadsWrite || s.Moves) {
		s.Heard = max(s.Heard, k.ago(e.acked))
		s.Signs += e.answered
	}
	return s
}
