package main

import (
	"fmt"
	"net"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/heartwheel-go/heartwheel/examples/internal/exampletest"
)

func TestMain(m *testing.M) { exampletest.Main(m) }

func dial(t *testing.T, addr string) net.Conn {
	c, err := net.Dial("udp", addr)
	require.NoError(t, err)
	t.Cleanup(func() { c.Close() })
	require.NoError(t, c.SetDeadline(time.Now().Add(exampletest.Late)))
	return c
}

func ask(c net.Conn, question string) (answer string, err error) {
	if _, err := fmt.Fprint(c, question); err != nil {
		return "", err
	}
	return hear(c)
}

func hear(c net.Conn) (string, error) {
	buf := make([]byte, 100)
	n, err := c.Read(buf)
	return string(buf[:n]), err
}

// join returns a client with a session.
func join(t *testing.T, addr string) net.Conn {
	c := dial(t, addr)
	cookie, err := ask(c, "hello")
	require.NoError(t, err)
	answer, err := ask(c, cookie)
	require.NoError(t, err)
	require.Equal(t, "1 "+cookie, answer)
	return c
}

func TestWhoTalksStaysAndWhoIsSilentGoes(t *testing.T) {
	t.Parallel()
	s := exampletest.Serve(t, serve)
	c := join(t, s.Addr)
	n := 1
	last := exampletest.Talk(t, func() error {
		n++
		answer, err := ask(c, "hello")
		if want := fmt.Sprintf("%d hello", n); err == nil && answer != want {
			return fmt.Errorf("got %q, not %q", answer, want)
		}
		return err
	})
	exampletest.Gone(t, last, func() error {
		answer, err := hear(c)
		require.Equal(t, "BYE idle\n", answer)
		return err
	})
	s.Logs(t, "reason=idle")
}

// A cookie is for one address.
func TestStolenCookieIsNoCookie(t *testing.T) {
	t.Parallel()
	s := exampletest.Serve(t, serve)
	c, thief := dial(t, s.Addr), dial(t, s.Addr)
	cookie, err := ask(c, "hello")
	require.NoError(t, err)
	other, err := ask(thief, cookie)
	require.NoError(t, err)
	require.NotEqual(t, cookie, other)
	require.Len(t, other, len(cookie))
}

func TestAServerThatStopsSaysSo(t *testing.T) {
	t.Parallel()
	outer := t // its end closes the connection
	var c net.Conn
	t.Run("server", func(t *testing.T) { c = join(outer, exampletest.Serve(t, serve).Addr) })
	answer, err := hear(c)
	require.NoError(t, err)
	require.Equal(t, "BYE drain\n", answer)
}

func TestInterruptWhileItStarts(t *testing.T) {
	t.Parallel()
	exampletest.Interrupt(t, serve)
}
