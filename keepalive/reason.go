package keepalive

import (
	"errors"
	"fmt"
	"net"
	"os"
	"time"
)

var (
	// ErrClosed says that the Keeper has been closed.
	ErrClosed = errors.New("keepalive: closed")

	// ErrFull says that the Keeper has as many connections as it may have, see
	// [Config.MaxConns].
	ErrFull = errors.New("keepalive: too many connections")

	// ErrArgument says that an argument is outside of what is possible. The
	// error that wraps it names the values and the limit.
	ErrArgument = errors.New("keepalive: invalid argument")

	// ErrIdleTimeout is what reading from and writing to a connection returns
	// after it was closed because its peer was silent, and what gnet's OnClose
	// gets. It is a net.Error with Timeout() true, and errors.Is finds
	// os.ErrDeadlineExceeded and net.ErrClosed in it: unlike after a deadline of
	// the user's own, the connection is closed.
	ErrIdleTimeout error = idleTimeout{}
)

type idleTimeout struct{}

var _ net.Error = idleTimeout{}

func (idleTimeout) Error() string   { return "keepalive: idle timeout" }
func (idleTimeout) Timeout() bool   { return true }
func (idleTimeout) Temporary() bool { return false }
func (idleTimeout) Is(target error) bool {
	return target == os.ErrDeadlineExceeded || target == net.ErrClosed
}

// Reason is why a connection was closed.
type Reason uint8

const (
	// ReasonPeer is that the peer closed it, or that it broke.
	ReasonPeer Reason = iota + 1
	// ReasonLocal is that this program closed it.
	ReasonLocal
	// ReasonIdle is that the peer was silent for too long.
	ReasonIdle
	// ReasonFull is that there were too many connections when it came.
	ReasonFull
)

var reasonNames = [...]string{"", "peer", "local", "idle", "full"}

func (r Reason) String() string {
	if r == 0 || int(r) >= len(reasonNames) {
		return fmt.Sprintf("Reason(%d)", uint8(r))
	}
	return reasonNames[r]
}

// err returns what using a connection says that the Keeper has closed for this
// reason, or nil where the Keeper has not.
func (r Reason) err() error {
	switch r {
	case ReasonIdle:
		return ErrIdleTimeout
	case ReasonFull:
		return ErrFull
	default:
		return nil
	}
}

// Verdict is what [Config.OnIdle] says about a connection.
type Verdict time.Duration

// Close is the verdict that an idle connection is to be closed.
const Close Verdict = 0

// Extend is the verdict that an idle connection may stay for d more, for this
// once. Zero or less means Close.
func Extend(d time.Duration) Verdict { return Verdict(max(d, 0)) }
