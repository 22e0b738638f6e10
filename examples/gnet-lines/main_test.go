package main

import (
	"fmt"
	"io"
	"net"
	"net/textproto"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/heartwheel-go/heartwheel/examples/internal/exampletest"
)

func TestMain(m *testing.M) { exampletest.Main(m) }

func dial(t *testing.T, s *exampletest.Server) *textproto.Conn {
	c, err := textproto.Dial("tcp", s.Addr)
	require.NoError(t, err)
	t.Cleanup(func() { c.Close() })
	return c
}

func say(c *textproto.Conn, line string) error {
	if err := c.PrintfLine("%s", line); err != nil {
		return err
	}
	answer, err := c.ReadLine()
	if err == nil && answer != line {
		err = fmt.Errorf("got %q", answer)
	}
	return err
}

// rest reads until the end, and compares the text before it.
func rest(c *textproto.Conn, want string) func() error {
	return func() error {
		b, err := io.ReadAll(c.R)
		if err == nil && string(b) != want {
			err = fmt.Errorf("got %q", b)
		}
		return err
	}
}

func TestWhoTalksStaysAndWhoIsSilentGoes(t *testing.T) {
	t.Parallel()
	s := exampletest.Serve(t, serve)
	c := dial(t, s)
	last := exampletest.Talk(t, func() error { return say(c, "hello") })
	exampletest.Gone(t, last, rest(c, "BYE idle\n"))
	s.Logs(t, "reason=idle")
}

func TestWhoNeverSpeaksGoes(t *testing.T) {
	t.Parallel()
	s := exampletest.Serve(t, serve)
	last := time.Now()
	exampletest.Gone(t, last, rest(dial(t, s), "BYE idle\n"))
}

func TestBytesOfALineAreNoLife(t *testing.T) {
	t.Parallel()
	s := exampletest.Serve(t, serve)
	last := time.Now()
	c, err := net.Dial("tcp", s.Addr)
	require.NoError(t, err)
	defer c.Close()
	exampletest.Trickle(t, c, "")
	exampletest.Gone(t, last, exampletest.EndOrReset(c))
}

func TestManyLinesAtOnceAndLinesThatAreTooLong(t *testing.T) {
	t.Parallel()
	c := dial(t, exampletest.Serve(t, serve))
	sent := make(chan error, 1)
	go func() {
		for i := range 10_000 {
			if err := c.PrintfLine("%d", i); err != nil {
				sent <- err
				return
			}
		}
		sent <- nil
	}()
	for i := range 10_000 {
		line, err := c.ReadLine()
		require.NoError(t, err)
		require.Equal(t, fmt.Sprint(i), line)
	}
	require.NoError(t, <-sent)
	require.NoError(t, say(c, strings.Repeat("x", maxLine-2)))

	_, err := c.W.WriteString(strings.Repeat("x", maxLine+1))
	require.NoError(t, err)
	require.NoError(t, c.W.Flush())
	require.NoError(t, rest(c, "ERR line too long\n")())
}

func TestAServerThatStopsSaysSo(t *testing.T) {
	t.Parallel()
	outer := t // its end closes the connection
	var c *textproto.Conn
	t.Run("server", func(t *testing.T) {
		c = dial(outer, exampletest.Serve(t, serve))
		require.NoError(t, say(c, "hello"))
	})
	require.NoError(t, rest(c, "BYE drain\n")())
}

func TestInterruptWhileItStarts(t *testing.T) {
	t.Parallel()
	exampletest.Interrupt(t, serve)
}
