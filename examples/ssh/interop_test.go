//go:build interop

package main

import (
	"bufio"
	"fmt"
	"net"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/heartwheel-go/heartwheel/examples/internal/exampletest"
)

// OpenSSH's client answers for its user, until it is stopped.
func TestOpenSSH(t *testing.T) {
	t.Parallel()
	s := exampletest.Serve(t, serve)
	host, port, err := net.SplitHostPort(s.Addr)
	require.NoError(t, err)
	c := exampletest.Run(t, exampletest.Program(t, "openssh-client", "ssh", "-T", "-q", "-F", "none", "-p", port,
		"-o", "StrictHostKeyChecking=no", "-o", "UserKnownHostsFile=/dev/null", "nobody@"+host))
	out := bufio.NewReader(c.Out)
	say := func(line string) {
		fmt.Fprintln(c.In, line)
		answer, err := out.ReadString('\n')
		require.NoError(t, err)
		require.Equal(t, line+"\r\n", answer)
	}
	say("hello")
	time.Sleep(3 * exampletest.Timeout)
	say("still here")

	last := time.Now()
	require.NoError(t, c.Process.Signal(syscall.SIGSTOP))
	s.Logs(t, "reason=no_answer")
	// Its last answer to a ping may have come most of ProbeAfter before.
	require.GreaterOrEqual(t, time.Since(last), exampletest.Timeout/2)
}

func TestOpenSSHExits(t *testing.T) {
	t.Parallel()
	s := exampletest.Serve(t, serve)
	host, port, err := net.SplitHostPort(s.Addr)
	require.NoError(t, err)
	c := exampletest.Program(t, "openssh-client", "sh", "-c", fmt.Sprintf(
		"printf 'hello\\nexit\\n' | ssh -T -q -F none -p %s -o StrictHostKeyChecking=no -o UserKnownHostsFile=/dev/null nobody@%s", port, host))
	require.Equal(t, "hello\r\n", exampletest.Output(t, c))
}
