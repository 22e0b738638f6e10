//go:build interop

package main

import (
	"bufio"
	"fmt"
	"net"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/heartwheel-go/heartwheel/examples/internal/exampletest"
)

func TestNetcat(t *testing.T) {
	t.Parallel()
	s := exampletest.Serve(t, serve)
	host, port, err := net.SplitHostPort(s.Addr)
	require.NoError(t, err)
	talk(t, "netcat-openbsd", "nc", "-u", host, port)
}

func TestSocat(t *testing.T) {
	t.Parallel()
	s := exampletest.Serve(t, serve)
	talk(t, "socat", "socat", "STDIO", "UDP:"+s.Addr)
}

// talk runs a client. It types a line, the cookie, and no more.
func talk(t *testing.T, debian, name string, args ...string) {
	c := exampletest.Run(t, exampletest.Program(t, debian, name, args...))
	out := bufio.NewReader(c.Out)
	fmt.Fprintln(c.In, "hello")
	cookie, err := out.ReadString('\n')
	require.NoError(t, err)
	last := time.Now()
	fmt.Fprint(c.In, cookie)
	for _, want := range []string{"1 " + cookie, "BYE idle\n"} {
		got, err := out.ReadString('\n')
		require.NoError(t, err)
		require.Equal(t, want, got)
	}
	require.GreaterOrEqual(t, time.Since(last), exampletest.Timeout)
}
