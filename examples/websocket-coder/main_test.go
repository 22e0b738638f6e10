package main

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/gorilla/websocket"
	"github.com/stretchr/testify/require"

	"github.com/heartwheel-go/heartwheel/examples/internal/exampletest"
)

func TestMain(m *testing.M) { exampletest.Main(m) }

// dial connects with gorilla's client.
func dial(t *testing.T, s *exampletest.Server) *websocket.Conn {
	c, _, err := websocket.DefaultDialer.Dial("ws://"+s.Addr, nil)
	require.NoError(t, err)
	t.Cleanup(func() { c.Close() })
	require.NoError(t, c.SetReadDeadline(time.Now().Add(2*exampletest.Late)))
	return c
}

func say(c *websocket.Conn, text string) error {
	if err := c.WriteMessage(websocket.TextMessage, []byte(text)); err != nil {
		return err
	}
	_, answer, err := c.ReadMessage()
	if err == nil && string(answer) != text {
		err = fmt.Errorf("got %q", answer)
	}
	return err
}

// closed reads until the server says goodbye.
func closed(c *websocket.Conn, text string) func() error {
	return func() error {
		_, _, err := c.ReadMessage()
		var goodbye *websocket.CloseError
		if !errors.As(err, &goodbye) || goodbye.Code != websocket.CloseGoingAway || goodbye.Text != text {
			return fmt.Errorf("no close frame: %w", err)
		}
		return nil
	}
}

func TestWhoTalksStaysAndWhoDoesNotAnswerGoes(t *testing.T) {
	t.Parallel()
	s := exampletest.Serve(t, serve)
	c := dial(t, s)
	c.SetPingHandler(func(string) error { return nil }) // like a hanging program
	last := exampletest.Talk(t, func() error { return say(c, strings.Repeat("x", 20_000)) })
	exampletest.Gone(t, last, closed(c, "no_answer"))
	s.Logs(t, "reason=no_answer")
}

func TestWhoAnswersPingsStays(t *testing.T) {
	t.Parallel()
	c := dial(t, exampletest.Serve(t, serve))
	pings := make(chan struct{}, 100)
	pong := c.PingHandler()
	c.SetPingHandler(func(data string) error { pings <- struct{}{}; return pong(data) })
	answers := make(chan string, 1)
	go func() { // reading answers pings
		defer close(answers)
		for {
			_, answer, err := c.ReadMessage()
			if err != nil {
				return
			}
			answers <- string(answer)
		}
	}()
	for range 6 { // three timeouts
		select {
		case <-pings:
		case <-time.After(exampletest.Late):
			require.FailNow(t, "no ping")
		}
	}
	require.NoError(t, c.WriteMessage(websocket.TextMessage, []byte("still here")))
	require.Equal(t, "still here", <-answers)
	c.Close()
	<-answers
}

func TestBytesOfAMessageAreNoLife(t *testing.T) {
	t.Parallel()
	s := exampletest.Serve(t, serve)
	c := dial(t, s)
	last := time.Now()
	require.NoError(t, say(c, "hello"))
	exampletest.Trickle(t, c.NetConn(), "\x81\xfe\xff\xff\x01\x02\x03\x04") // text, masked, of 64 KiB
	exampletest.Gone(t, last, closed(c, "no_answer"))
}

func TestAServerThatStopsSaysSo(t *testing.T) {
	t.Parallel()
	var c *websocket.Conn
	t.Run("server", func(t *testing.T) {
		s := exampletest.Serve(t, serve)
		c, _, _ = websocket.DefaultDialer.Dial("ws://"+s.Addr, nil)
		require.NotNil(t, c)
		require.NoError(t, say(c, "hello"))
	})
	defer c.Close()
	require.NoError(t, closed(c, "drain")())
}

func TestInterruptWhileItStarts(t *testing.T) {
	t.Parallel()
	exampletest.Interrupt(t, serve)
}
