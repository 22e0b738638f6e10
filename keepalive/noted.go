package keepalive

import (
	"sync/atomic"
	"time"

	"github.com/heartwheel-go/heartwheel/keepalive/internal/rules"
)

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

// stamp is an instant by the clock, and not by the wheel's time: that takes a lock of all connections. A visit
// finds out what it is by the wheel's time, once: later it may have forgotten stalls since then.
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
