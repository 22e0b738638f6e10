package heartbeat

import (
	"errors"
	"fmt"
	"net"
	"os"
	"time"
)

var (
	// ErrClosed says that the Beater was closed.
	ErrClosed = errors.New("heartbeat: closed")

	// ErrStopped says that the beats of a connection were ended by [Conn.Stop].
	ErrStopped = errors.New("heartbeat: stopped")

	// ErrArgument says that an argument is out of bounds. The wrapping error names the values
	// and the limit.
	ErrArgument = errors.New("heartbeat: invalid argument")

	// ErrNoAnswer says that the server did not answer a beat in time, or did not even take it.
	// Then the connection is closed, and Read, Write and Run return this error. It is a
	// net.Error, and its Timeout is true. errors.Is finds os.ErrDeadlineExceeded and
	// net.ErrClosed in it. It is worth a new connection: Retryable is true.
	ErrNoAnswer error = &noAnswer{}
)

var errConnClosed = fmt.Errorf("heartbeat: the connection was closed by this program: %w", net.ErrClosed)

// noAnswer is an ErrNoAnswer with its details.
type noAnswer struct {
	after   time.Duration // 0 in ErrNoAnswer itself
	written bool          // the beat was
}

var _ net.Error = (*noAnswer)(nil)

func (e *noAnswer) Error() string {
	switch {
	case e.after == 0:
		return "heartbeat: no answer to a beat"
	case !e.written:
		return fmt.Sprintf("heartbeat: a beat could not be written within %v", e.after)
	default:
		return fmt.Sprintf("heartbeat: no answer to a beat within %v", e.after)
	}
}

// Timeout is there for net.Error and reports true.
func (e *noAnswer) Timeout() bool { return true }

// Temporary is there for net.Error and reports false.
func (e *noAnswer) Temporary() bool { return false }

// Retryable reports that a new connection is worth trying, see [Reconnect].
func (e *noAnswer) Retryable() bool { return true }

func (e *noAnswer) Is(target error) bool {
	return target == ErrNoAnswer || target == os.ErrDeadlineExceeded || target == net.ErrClosed
}
