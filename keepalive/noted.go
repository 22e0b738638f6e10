package keepalive

import (
	"sync/atomic"

	"github.com/heartwheel-go/heartwheel/internal/socket"
	"github.com/heartwheel-go/heartwheel/keepalive/internal/rules"
)

// noted is what Read and Write note if the socket can't tell. Instants are of type rules.Time.
type noted struct {
	lastRead, lastWrite atomic.Int64
	bytes               atomic.Uint64 // read

	blind     bool         // the connection shows no socket, and is no net.Pipe
	pipe      *socket.Pipe // inside, or nil
	headed    bool         // the first bytes may be a PROXY header, for a layer above the socket
	listening atomic.Int32 // running calls that read

	// seen is how many bytes had arrived when the socket was last asked, and seenAt when there
	// were first so many. Only a visit uses them.
	seen   uint64
	seenAt rules.Time
}

func newNoted(now rules.Time) *noted {
	n := new(noted)
	n.lastRead.Store(int64(now))
	n.lastWrite.Store(int64(now))
	return n
}

func (n *noted) read(now rules.Time, bytes int) {
	n.lastRead.Store(int64(now))
	n.bytes.Add(uint64(bytes))
}

func (n *noted) wrote(now rules.Time) { n.lastWrite.Store(int64(now)) }

// tell fills in what the socket of the connection can't tell. Unread bytes have arrived when
// they are first seen, at the latest.
func (c *conn) tell(s *rules.Socket) {
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
	s.Hidden = n.blind && busy
	if n.pipe != nil && n.pipe.Waits() { // it is full with any bytes
		s.Unread, s.Full = 1, true
	}
	s.Taken = n.bytes.Load()
	s.Arrived = s.Taken + uint64(s.Unread)
	s.Signs = s.Arrived
	s.Received = min(now, rules.Time(n.lastRead.Load()))
	s.Sent = min(now, rules.Time(n.lastWrite.Load()))
	if s.Arrived > n.seen {
		n.seen, n.seenAt = s.Arrived, now
	}
	if s.Unread > 0 {
		s.Received = max(s.Received, n.seenAt)
	}
}
