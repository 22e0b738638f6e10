package keepalive

import (
	"errors"
	"fmt"
	"net"
	"os"

	"github.com/heartwheel-go/heartwheel/internal/argument"
	"github.com/heartwheel-go/heartwheel/keepalive/internal/rules"
)

var (
	// ErrNotGuarded means the connection is not guarded: it never was, or it has been closed,
	// or its Keeper has.
	ErrNotGuarded = errors.New("keepalive: connection is not guarded")

	// ErrArgument means an argument is out of bounds. The error wrapping it names the values
	// and the limit. errors.Is finds it also in the ErrArgument of the other packages of this module, and they in it.
	ErrArgument error = argument.Error("keepalive")

	// ErrIdleTimeout is the error of Read and Write after the connection was closed for its
	// peer's silence, and of gnet's OnClose. It is [ReasonIdle]. The other reasons are errors
	// in the same way.
	ErrIdleTimeout error = ReasonIdle
)

// Reason is why a connection was closed. It is an error, too: of Read and Write after the
// Keeper has closed the connection, of gnet's OnClose, and as the cause of [Guard.Context].
// errors.Is finds net.ErrClosed in it, unlike in the error after a deadline of the program's
// own. If it is a matter of time (Timeout is true), errors.Is finds os.ErrDeadlineExceeded,
// too. A [Check] has a reason of its own. Since it is an error, %v and %s print its sentence, that of Error; String is the one word.
type Reason uint8

const (
	// ReasonPeer means the peer closed the connection, or the connection broke.
	ReasonPeer = Reason(rules.Peer)
	// ReasonLocal means this program closed the connection.
	ReasonLocal = Reason(rules.Local)
	// ReasonIdle means the peer was silent for too long.
	ReasonIdle = Reason(rules.Idle)
	// ReasonFull means there were too many connections already, in all or of the same peer.
	ReasonFull = Reason(rules.Full)
	// ReasonFirstMessage means the peer connected and said nothing.
	ReasonFirstMessage = Reason(rules.FirstMessage)
	// ReasonReadIdle means nothing was read for too long, see Config.ReadIdle.
	ReasonReadIdle = Reason(rules.ReadIdle)
	// ReasonWriteIdle means nothing was written for too long, see Config.WriteIdle.
	ReasonWriteIdle = Reason(rules.WriteIdle)
	// ReasonNoAnswer means the peer did not answer probes.
	ReasonNoAnswer = Reason(rules.NoAnswer)
	// ReasonMaxAge means the connection was as old as it may become.
	ReasonMaxAge = Reason(rules.MaxAge)
	// ReasonTooMany means the peer sent heartbeats too often.
	ReasonTooMany = Reason(rules.TooMany)
	// ReasonTooSlow means the peer sent its bytes too slowly.
	ReasonTooSlow = Reason(rules.TooSlow)
	// ReasonEvicted means the connection was one of the idlest when there was no more room.
	ReasonEvicted = Reason(rules.Evicted)
	// ReasonDrain means the server is going down.
	ReasonDrain = Reason(rules.Drain)
	// ReasonShed means the connection was to move to another server, see Keeper.Shed.
	ReasonShed = Reason(rules.Shed)

	// ReasonWriteStall means the peer took nothing of what was written for too long, see Config.WriteStall.
	ReasonWriteStall = Reason(rules.WriteStall)
	// ReasonMaxUnsent means too many bytes waited for the peer, see Config.MaxUnsent.
	ReasonMaxUnsent = Reason(rules.MaxUnsent)

	reasons  = Reason(rules.Check) // the first check, see CheckReason
	endOfAll = reasons + maxChecks // beyond the last that there may be
)

type reasonText struct{ name, text string }

// reasonTexts has the name of each reason but checks, as in logs and metrics, and the text of the error.
var reasonTexts = [reasons]reasonText{
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
	ReasonShed:         {"shed", "to move to another server"},
	ReasonWriteStall:   {"write_stall", "the peer takes no bytes"},
	ReasonMaxUnsent:    {"max_unsent", "too many bytes wait for the peer"},
}

var _ net.Error = ReasonIdle

// Reasons returns all reasons, in order, say for metrics: those above, and then those of the checks of all Keepers so far.
func Reasons() []Reason {
	var all []Reason
	for r := ReasonPeer; r.text().name != ""; r++ {
		all = append(all, r)
	}
	return all
}

// text returns the name and the text of a reason, or none.
func (r Reason) text() reasonText {
	if r < reasons {
		return reasonTexts[r]
	}
	if names := checkNames.All(); int(r-reasons) < len(names) {
		name := names[r-reasons]
		return reasonText{name, "closed by the check " + name}
	}
	return reasonText{}
}

// orLocal returns the reason, or ReasonLocal if it is none.
func (r Reason) orLocal() Reason {
	if r.text().name == "" {
		return ReasonLocal
	}
	return r
}

// String returns the name of the reason: one word in lower case.
func (r Reason) String() string {
	if name := r.text().name; name != "" {
		return name
	}
	return fmt.Sprintf("Reason(%d)", uint8(r))
}

// Error returns a sentence about the reason.
func (r Reason) Error() string {
	if text := r.text().text; text != "" {
		return "keepalive: " + text
	}
	return "keepalive: " + r.String()
}

// Timeout reports whether the connection was closed because something did not come in time.
func (r Reason) Timeout() bool {
	switch r {
	case ReasonIdle, ReasonFirstMessage, ReasonReadIdle, ReasonWriteIdle, ReasonNoAnswer, ReasonTooSlow, ReasonWriteStall:
		return true
	default:
		return false
	}
}

// Temporary reports false: net.Error has this method.
func (r Reason) Temporary() bool { return false }

// Is makes errors.Is find the errors of net and os for such an end.
func (r Reason) Is(target error) bool {
	switch target {
	case net.ErrClosed:
		return true
	case os.ErrDeadlineExceeded:
		return r.Timeout()
	default:
		return false
	}
}

// Retryable reports whether a client should connect again, after a pause, if its connection
// was closed for this reason. It should not if it broke a rule, and would again, or if this
// program meant to end the connection. Nobody knows that of a Check, so it reports true.
func (r Reason) Retryable() bool {
	switch r {
	case ReasonLocal, ReasonTooMany, ReasonTooSlow, ReasonFirstMessage:
		return false
	default:
		return r.text().name != ""
	}
}
