package cli

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/heartwheel-go/heartwheel/internal/logtest"
)

// terminal returns a terminal of 24 lines for a program, and what its user sees.
func terminal(t *testing.T) (*os.File, *logtest.Log) {
	t.Helper()
	user, err := os.OpenFile("/dev/ptmx", os.O_RDWR, 0)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, user.Close()) })
	fd := int(user.Fd())
	require.NoError(t, unix.IoctlSetPointerInt(fd, unix.TIOCSPTLCK, 0))
	require.NoError(t, unix.IoctlSetWinsize(fd, unix.TIOCSWINSZ, &unix.Winsize{Row: 24, Col: 80}))
	number, err := unix.IoctlGetInt(fd, unix.TIOCGPTN)
	require.NoError(t, err)
	program, err := os.OpenFile(fmt.Sprintf("/dev/pts/%d", number), os.O_RDWR|unix.O_NOCTTY, 0)
	require.NoError(t, err)
	var seen logtest.Log
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_, _ = user.WriteTo(&seen) // until the terminal is closed
	}()
	t.Cleanup(func() { require.NoError(t, program.Close()); <-ended })
	return program, &seen
}

func TestWatchOnATerminal(t *testing.T) {
	s := start(t, nil)
	watch := func(until string, args ...string) string {
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		out, seen := terminal(t)
		var errs bytes.Buffer
		ended := make(chan int, 1)
		go func() { ended <- Run(ctx, append([]string{"watch", "-every", "100ms"}, args...), s.getenv, out, &errs) }()
		seen.Await(t, until)
		cancel()
		require.Zero(t, <-ended, errs.String())
		return seen.String()
	}
	require.Contains(t, watch(`led by (?s:.*)led by `), hide+home, "each text is over the last one")
	require.NotContains(t, watch(`"members"(?s:.*)"members"`, "-json"), "\x1b", "the answers stay, one after the other")
}
