package heartbeat

import (
	"errors"
	"fmt"
	"net"
	"os"
	"time"

	"github.com/heartwheel-go/heartwheel/internal/argument"
)

var (
	// ErrClosed says that the Beater was closed.
	ErrClosed = errors.New("heartbeat: closed")

	// ErrStopped says that the beats of a connection were ended by [Conn.Stop].
	ErrStopped = errors.New("heartbeat: stopped")

	// ErrArgument says that an argument is out of bounds. The wrapping error names the values
	// and the limit.
	ErrArgument error = argument.Error("heartbeat")

	// ErrNoAnswer says that the server did not answer a beat in time, or did not even take it, or
	// took nothing more of a Write.
	// Then the connection is closed, and Read, Write and Run return this error. It is a
	// net.Error, and its Timeout is true. errors.Is finds os.ErrDeadlineExceeded and
	// net.ErrClosed in it. It is worth a new connection: Retryable is true.
	ErrNoAnswer error = &noAnswer{}
)

var errConnClosed = fmt.Errorf("heartbeat: the connection was closed by this program: %w", net.ErrClosed)

// noAnswer is an ErrNoAnswer with its details.
type noAnswer struct {
	after time.Duration // 0 in ErrNoAnswer itself
	what  string
}

// What is missing.
const (
	notAnswered = "no answer to a beat"
	notWritten  = "a beat could not be written"
	notTaken    = "the server acknowledged nothing of a Write"
)

var _ net.Error = (*noAnswer)(nil)

func (e *noAnswer) Error() string {
	if e.after == 0 {
		return "heartbeat: " + notAnswered
	}
	return fmt.Sprintf("heartbeat: %s within %v", e.what, e.after)
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
