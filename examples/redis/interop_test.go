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

func cli(t *testing.T, s *exampletest.Server, args ...string) *exampletest.Running {
	host, port, err := net.SplitHostPort(s.Addr)
	require.NoError(t, err)
	return exampletest.Run(t, exampletest.Program(t, "redis-tools", "redis-cli", append([]string{"-h", host, "-p", port}, args...)...))
}

// redis-cli, in the hands of an interrupted user.
func TestRedisCLI(t *testing.T) {
	t.Parallel()
	s := exampletest.Serve(t, serve)
	c := cli(t, s)
	out := bufio.NewReader(c.Out)
	say := func(line, want string) {
		fmt.Fprintln(c.In, line)
		answer, err := out.ReadString('\n')
		require.NoError(t, err)
		require.Equal(t, want+"\n", answer, "%s", line)
	}
	say("SET hello world", "OK")
	exampletest.Talk(t, func() error { say("GET hello", "world"); return nil })
	s.Logs(t, "reason=idle")
	say("GET hello", "Error: Server closed the connection")
	say("GET hello", "world") // it has connected again
	say(fmt.Sprintf("DEBUG SLEEP %v", (3*exampletest.Timeout).Seconds()), "OK")
	say("ECHO there", "there")
}

func TestRedisCLISubscribes(t *testing.T) {
	t.Parallel()
	s := exampletest.Serve(t, serve)
	out := bufio.NewScanner(cli(t, s, "--csv", "SUBSCRIBE", "news").Out)
	for out.Text() != `"subscribe","news",1` { // it also tells how to end it
		require.True(t, out.Scan())
	}
	time.Sleep(3 * exampletest.Timeout)

	heard := bufio.NewScanner(cli(t, s, "PUBLISH", "news", "nothing").Out)
	require.True(t, heard.Scan())
	require.Equal(t, "1", heard.Text(), "one subscriber")
	require.True(t, out.Scan())
	require.Equal(t, `"message","news","nothing"`, out.Text())
}
