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

func dial(t *testing.T, s *exampletest.Server) net.Conn {
	c, err := net.Dial("udp", s.Addr)
	require.NoError(t, err)
	t.Cleanup(func() { c.Close() })
	require.NoError(t, c.SetDeadline(time.Now().Add(exampletest.Late)))
	return c
}

// ask sends a message. A lost one is sent again, as CoAP does.
func ask(c net.Conn, question message) (answer message, text string, err error) {
	buf := make([]byte, 100)
	for range 100 {
		if _, err = c.Write(question.append(nil, "")); err != nil {
			return message{}, "", err
		}
		if err = c.SetReadDeadline(time.Now().Add(time.Second)); err != nil {
			return message{}, "", err
		}
		n, err := c.Read(buf)
		if err != nil {
			continue
		}
		answer, ok := parse(buf[:n])
		if !ok {
			return message{}, "", fmt.Errorf("no CoAP: %q", buf[:n])
		}
		text = string(buf[headerLen+len(answer.token) : n])
		return answer, text, nil
	}
	return message{}, "", err
}

func TestWhoTalksStaysAndWhoIsSilentGoes(t *testing.T) {
	t.Parallel()
	s := exampletest.Serve(t, serve)
	c := dial(t, s)
	n := 0
	last := exampletest.Talk(t, func() error {
		n++
		answer, text, err := ask(c, message{code: get, id: uint16(n), token: []byte("abc")})
		if want := fmt.Sprintf("\xffrequest %d", n); err == nil && (answer.kind != acknowledgement || answer.code != content || text != want) {
			return fmt.Errorf("got %v %q", answer, text)
		}
		return err
	})
	exampletest.Gone(t, last, func() error { s.Logs(t, "reason=idle"); return nil })
	_, text, err := ask(c, message{code: get, id: 1})
	require.NoError(t, err)
	require.Equal(t, "\xffrequest 1", text, "another session")
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
	answer, text, err := ask(c, message{id: 7})
	require.NoError(t, err)
	require.Equal(t, message{kind: reset, id: 7, token: []byte{}}, answer)
	require.Empty(t, text)
	answer, _, err = ask(c, message{kind: nonConfirmable, code: 0x02, id: 8})
	require.NoError(t, err)
	require.Equal(t, message{kind: nonConfirmable, code: notAllowed, id: 8, token: []byte{}}, answer)
}

func TestInterruptWhileItStarts(t *testing.T) {
	t.Parallel()
	exampletest.Interrupt(t, serve)
}
