// Package exampletest starts examples for their tests. It has two questions for each example.
// Does a talking client stay? Does a silent one go, and not early?
package exampletest

import (
	"context"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/heartwheel-go/heartwheel/internal/logtest"
	"github.com/heartwheel-go/heartwheel/internal/testmain"
)

const (
	// Timeout is the timeout of the examples under test: long enough for a busy machine to
	// send a heartbeat in time.
	Timeout = 2 * time.Second

	// Beat is the pause of a talking test between two messages.
	Beat = Timeout / 12

	// Late is how late everything may be on a machine busy with other tests.
	Late = time.Minute
)

// Main is for TestMain. It looks for leftover goroutines. It lets more tests run at the same
// time than there are processors, since they mostly wait. options allow goroutines
// to stay.
func Main(m *testing.M, options ...goleak.Option) {
	if err := flag.Set("test.parallel", "16"); err != nil {
		panic(err)
	}
	testmain.Run(m, options...)
}

// Server is a running example.
type Server struct {
	Addr string

	log   *logtest.Log
	ended chan error
}

// Serve runs an example until the test ends, and requires it to stop then.
func Serve(t *testing.T, serve func(ctx context.Context, addr string, timeout time.Duration, logger *slog.Logger) error) *Server {
	s := &Server{log: new(logtest.Log), ended: make(chan error, 1)}
	ctx, cancel := context.WithCancel(context.Background())
	go func() { s.ended <- serve(ctx, "127.0.0.1:0", Timeout, s.log.Logger(slog.LevelInfo)) }()
	t.Cleanup(func() {
		cancel()
		select {
		case err := <-s.ended:
			require.NoError(t, err)
		case <-time.After(Late):
			t.Errorf("the example does not stop; its log:\n%s", s.log)
		}
		if t.Failed() {
			t.Logf("the example's log:\n%s", s.log)
		}
	})
	s.Addr = s.address(t)
	return s
}

// address waits until the example has logged its address.
func (s *Server) address(t *testing.T) string {
	const before = `msg=listening addr=`
	for end := time.Now().Add(Late); time.Now().Before(end); time.Sleep(time.Millisecond) {
		if _, after, ok := strings.Cut(s.log.String(), before); ok {
			addr, _, _ := strings.Cut(after, "\n")
			return addr
		}
		if len(s.ended) > 0 {
			break
		}
	}
	require.FailNow(t, "the example does not listen", "its log:\n%s", s.log)
	return ""
}

// Logs waits until a text is in the example's log.
func (s *Server) Logs(t *testing.T, text string) {
	require.Eventually(t, func() bool { return strings.Contains(s.log.String(), text) },
		Late, time.Millisecond, "not in the log: %s", text)
}

// Talk calls beat for several timeouts, and requires it to work each time. It returns the
// instant before the last call.
func Talk(t *testing.T, beat func() error) (last time.Time) {
	longest := time.Duration(0)
	last = time.Now()
	for end := last.Add(3 * Timeout); time.Now().Before(end); time.Sleep(Beat) {
		longest = max(longest, time.Since(last))
		last = time.Now()
		require.NoError(t, beat(), "this test was itself silent for up to %v", longest)
	}
	return last
}

// Gone requires the other side to close a connection, but not before Timeout has passed since
// an instant. ended waits for the close. It returns nil for a close, and an error for anything
// else.
func Gone(t *testing.T, since time.Time, ended func() error) {
	seen := make(chan error, 1)
	go func() { seen <- ended() }()
	select {
	case err := <-seen:
		require.NoError(t, err)
		require.GreaterOrEqual(t, time.Since(since), Timeout, "early")
	case <-time.After(Timeout + Late):
		require.FailNow(t, "never closed")
	}
}

// EOF is for Gone: it reads until the end, whatever comes before.
func EOF(r io.Reader) func() error {
	return func() error {
		if _, err := io.Copy(io.Discard, r); err != nil {
			return fmt.Errorf("not the end of the stream: %w", err)
		}
		return nil
	}
}

// Trickle begins to send a message a byte at a time, first its head, until the
// connection or the test ends. A byte is no message.
func Trickle(t *testing.T, conn io.Writer, head string) {
	stop, stopped := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(stopped)
		for _, err := io.WriteString(conn, head); err == nil; _, err = io.WriteString(conn, "x") {
			select {
			case <-time.After(Beat):
			case <-stop:
				return
			}
		}
	}()
	t.Cleanup(func() { close(stop); <-stopped })
}

// EndOrReset is for Gone if the other side closes while we send: then a reset may come before
// the end.
func EndOrReset(r io.Reader) func() error {
	return func() error {
		_, _ = io.Copy(io.Discard, r)
		return nil
	}
}
