package heartbeat

import (
	"syscall"
	"time"

	"github.com/heartwheel-go/heartwheel/internal/socket"
	"github.com/heartwheel-go/heartwheel/internal/tcpsocket"
)

// sight is what is known of a connection when something is to be decided.
type sight struct {
	now     time.Duration // by the wheel
	unread  bool          // an answer is late, and bytes of the server wait to be read
	writing bool          // a Write runs, of a beat or of the user's
	tells   bool          // the socket tells what the server has acknowledged
	sent    tcpsocket.Sent
}

// look looks at the connection. Layers may be the user's, and so mu must not be held.
func (x *beat) look() sight {
	s := sight{now: x.beater.wheel.Now(), writing: x.conn.writing.Load() > 0}
	raw, _, err := socket.Of(x.conn.inner, nil)
	if err != nil {
		return s
	}
	s.sent, s.tells = sent(raw)
	s.unread = x.deadline.Load() != 0 && s.now >= x.limit() && unread(raw) > 0
	return s
}

// notice notes what the server has acknowledged since the last look, and puts off deadlines by that. mu
// must be held.
func (x *beat) notice(s sight) {
	progress := s.tells && s.sent.Acknowledged != x.acked
	if progress {
		x.acked = s.sent.Acknowledged
		x.putOff(s)
	}
	if x.writing == nil {
		x.taken.Store(x.takenBy(s, progress))
	}
}

// putOff puts off the deadlines of the present beat if the server has taken bytes before it: it could
// not answer yet. mu must be held.
func (x *beat) putOff(s sight) {
	before := s.sent.Acknowledged < x.written
	if x.writing != nil {
		if before = s.writing; before {
			x.taken.Store(x.beater.in(x.opts.Timeout))
		}
	}
	if before && x.deadline.Load() != 0 {
		x.deadline.Store(x.beater.in(x.opts.AckTimeout))
	}
}

// takenBy returns by when the server must take more of the user's Write, or 0 if nothing is written, or
// the server owes nothing, as far as one can tell. While it takes bytes, it is heard. mu must be held.
func (x *beat) takenBy(s sight, progress bool) int64 {
	if !s.writing {
		return 0
	}
	owes := s.tells && s.sent.Pending
	if progress || !owes || x.taken.Load() == 0 {
		x.heard.Store(int64(s.now))
	}
	if !owes {
		return 0
	}
	return int64(sum(time.Duration(x.heard.Load()), x.patience))
}

// sent returns what has become of the bytes written to a socket, and false if it does not tell.
func sent(raw syscall.RawConn) (s tcpsocket.Sent, tells bool) {
	err := raw.Control(func(fd uintptr) { s, tells = tcpsocket.AskSent(fd) })
	return s, err == nil && tells
}
