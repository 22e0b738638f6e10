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
	c := exampletest.Run(t, exampletest.Program(t, "netcat-openbsd", "nc", host, port))
	out := bufio.NewReader(c.Out)
	last := time.Time{}
	for _, line := range []string{"hello\n", "BYE idle\n"} {
		if line == "hello\n" {
			last = time.Now()
			fmt.Fprint(c.In, line)
		}
		answer, err := out.ReadString('\n')
		require.NoError(t, err)
		require.Equal(t, line, answer)
	}
	require.GreaterOrEqual(t, time.Since(last), exampletest.Timeout)
}
