package keepalive

import (
	"errors"
	"fmt"
	"net"
	"os"
)

var (
	// ErrClosed says that the Keeper has been closed.
	ErrClosed = errors.New("keepalive: closed")

	// ErrFull says that the Keeper has as many connections as it may have, in all or
	// of one peer; see [Config.MaxConns] and [Config.MaxPerKey].
	ErrFull = errors.New("keepalive: too many connections")

	// ErrDraining says that the Keeper takes no new connections, see [Keeper.Drain].
	ErrDraining = errors.New("keepalive: draining")

	// ErrNotGuarded says that a connection is not guarded by this Keeper: it never
	// was, or it has been closed.
	ErrNotGuarded = errors.New("keepalive: connection is not guarded")

	// ErrArgument says that an argument is outside of what is possible. The
	// error that wraps it names the values and the limit.
	ErrArgument = errors.New("keepalive: invalid argument")

	// ErrIdleTimeout is what reading from and writing to a connection returns
	// after it was closed because its peer was silent, and what gnet's OnClose
	// gets. It is [ReasonIdle]; the other reasons are errors in the same way.
	ErrIdleTimeout error = ReasonIdle
)

// Reason is why a connection was closed. It is an error, too: what reading from and
// writing to a connection returns that the Keeper has closed, what gnet's OnClose
// gets, and the cause of [Keeper.Context]. errors.Is finds net.ErrClosed in it,
// since the connection is closed, unlike after a deadline of the user's own; and
// where it is a matter of time (Timeout is true) also os.ErrDeadlineExceeded.
type Reason uint8

const (
	// ReasonPeer is that the peer closed it, or that it broke.
	ReasonPeer Reason = iota + 1
	// ReasonLocal is that this program closed it.
	ReasonLocal
	// ReasonIdle is that the peer was silent for too long.
	ReasonIdle
	// ReasonFull is that there were too many connections when it came, in all or of
	// its peer.
	ReasonFull
	// ReasonFirstMessage is that the peer connected and said nothing.
	ReasonFirstMessage
	// ReasonReadIdle is that nothing was read for too long, see [Config.ReadIdle].
	ReasonReadIdle
	// ReasonWriteIdle is that nothing was written for too long, see [Config.WriteIdle].
	ReasonWriteIdle
	// ReasonNoAnswer is that the peer did not answer probes.
	ReasonNoAnswer
	// ReasonMaxAge is that the connection was as old as it may get.
	ReasonMaxAge
	// ReasonTooMany is that the peer sent heartbeats too often.
	ReasonTooMany
	// ReasonTooSlow is that the peer sent its bytes too slowly.
	ReasonTooSlow
	// ReasonEvicted is that it was the idlest when there was no more room.
	ReasonEvicted
	// ReasonDrain is that the server is going down.
	ReasonDrain

	reasons
)

// reasonTexts has for each reason its name, as in logs and metrics, and what the
// error says.
var reasonTexts = [reasons]struct{ name, text string }{
	ReasonPeer:         {"peer", "closed by the peer"},
	ReasonLocal:        {"local", "closed"},
	ReasonIdle:         {"idle", "idle timeout"},
	ReasonFull:         {"full", "too many connections"},
	ReasonFirstMessage: {"first_message", "no first message in time"},
	ReasonReadIdle:     {"read_idle", "nothing read for too long"},
	ReasonWriteIdle:    {"write_idle", "nothing written for too long"},
	ReasonNoAnswer:     {"no_answer", "no answer to probes"},
	ReasonMaxAge:       {"max_age", "maximum age reached"},
	ReasonTooMany:      {"too_many", "too many heartbeats"},
	ReasonTooSlow:      {"too_slow", "bytes come too slowly"},
	ReasonEvicted:      {"evicted", "closed to make room"},
	ReasonDrain:        {"drain", "server is shutting down"},
}

var _ net.Error = ReasonIdle

// Reasons returns all reasons, for whoever needs the whole set, such as metrics.
func Reasons() []Reason {
	all := make([]Reason, 0, reasons-1)
	for r := ReasonPeer; r < reasons; r++ {
		all = append(all, r)
	}
	return all
}

// String returns the name of the reason: one word in lower case.
func (r Reason) String() string {
	if r == 0 || r >= reasons {
		return fmt.Sprintf("Reason(%d)", uint8(r))
	}
	return reasonTexts[r].name
}

// Error returns a sentence about the reason.
func (r Reason) Error() string {
	if r == 0 || r >= reasons {
		return "keepalive: " + r.String()
	}
	return "keepalive: " + reasonTexts[r].text
}

// Timeout reports whether the connection was closed because something did not come
// in time.
func (r Reason) Timeout() bool {
	switch r {
	case ReasonIdle, ReasonFirstMessage, ReasonReadIdle, ReasonWriteIdle, ReasonNoAnswer, ReasonTooSlow:
		return true
	default:
		return false
	}
}

// Temporary is there for net.Error and reports false, always.
func (r Reason) Temporary() bool { return false }

// Is makes errors.Is find what net and os call such an end, and ErrFull.
func (r Reason) Is(target error) bool {
	switch target {
	case net.ErrClosed:
		return true
	case os.ErrDeadlineExceeded:
		return r.Timeout()
	case ErrFull:
		return r == ReasonFull
	default:
		return false
	}
}

// Retryable reports whether a client whose connection was closed for this reason
// should connect again, after a pause: not one that broke a rule, and would again,
// and not where this program meant to end it.
func (r Reason) Retryable() bool {
	switch r {
	case ReasonLocal, ReasonTooMany, ReasonTooSlow, ReasonFirstMessage:
		return false
	default:
		return r > 0 && r < reasons
	}
}
