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

// client counts what it sends.
type client struct {
	net.Conn
	sent int
}

func dial(t *testing.T, s *exampletest.Server) *client {
	c, err := net.Dial("udp", s.Addr)
	require.NoError(t, err)
	t.Cleanup(func() { c.Close() })
	require.NoError(t, c.SetDeadline(time.Now().Add(exampletest.Late)))
	return &client{Conn: c}
}

// ask sends a message. One without an answer is sent again, as CoAP does. Then there may be two
// answers, and the next call does not take the second one for its own.
func (c *client) ask(question message) (answer message, text string, err error) {
	buf := make([]byte, 100)
	for range 100 {
		c.sent++
		if _, err = c.Write(question.append(nil, "")); err != nil {
			return message{}, "", err
		}
		if err = c.SetReadDeadline(time.Now().Add(time.Second)); err != nil {
			return message{}, "", err
		}
		for {
			var n int
			if n, err = c.Read(buf); err != nil {
				break
			}
			answer, ok := parse(buf[:n])
			if !ok {
				return message{}, "", fmt.Errorf("no CoAP: %q", buf[:n])
			}
			if answer.id == question.id {
				return answer, string(buf[headerLen+len(answer.token) : n]), nil
			}
		}
	}
	return message{}, "", err
}

// request sends a GET. It returns the answer, and the session's number of the request.
func (c *client) request(id int) (answer message, number int, err error) {
	answer, text, err := c.ask(message{code: get, id: uint16(id), token: []byte("abc")})
	if err == nil {
		_, err = fmt.Sscanf(text, "\xffrequest %d", &number)
	}
	return answer, number, err
}

func TestWhoTalksStaysAndWhoIsSilentGoes(t *testing.T) {
	t.Parallel()
	s := exampletest.Serve(t, serve)
	c := dial(t, s)
	n := 0
	last := exampletest.Talk(t, func() error {
		n++
		answer, number, err := c.request(n)
		if err == nil && (answer.kind != acknowledgement || answer.code != content || number < n || number > c.sent) {
			return fmt.Errorf("got %v, request %d of %d", answer, number, c.sent)
		}
		return err
	})
	exampletest.Gone(t, last, func() error { s.Logs(t, "reason=idle"); return nil })
	before := c.sent
	_, number, err := c.request(n + 1)
	require.NoError(t, err)
	require.LessOrEqual(t, number, c.sent-before, "another session")
}

func TestOtherDatagramsAreNoLife(t *testing.T) {
	t.Parallel()
	s := exampletest.Serve(t, serve)
	c := dial(t, s)
	for begun := time.Now(); time.Since(begun) < exampletest.Timeout/2; time.Sleep(exampletest.Beat) {
		_, err := c.Write([]byte("not CoAP"))
		require.NoError(t, err)
	}
	s.Logs(t, "reason=first_message")
}

func TestPingAndOtherMethods(t *testing.T) {
	t.Parallel()
	c := dial(t, exampletest.Serve(t, serve))
	answer, text, err := c.ask(message{id: 7})
	require.NoError(t, err)
	require.Equal(t, message{kind: reset, id: 7, token: []byte{}}, answer)
	require.Empty(t, text)
	answer, _, err = c.ask(message{kind: nonConfirmable, code: 0x02, id: 8})
	require.NoError(t, err)
	require.Equal(t, message{kind: nonConfirmable, code: notAllowed, id: 8, token: []byte{}}, answer)
}

func TestInterruptWhileItStarts(t *testing.T) {
	t.Parallel()
	exampletest.Interrupt(t, serve)
}
