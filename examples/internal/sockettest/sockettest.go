// Package sockettest tests the examples of WebSockets with gorilla's client.
package sockettest

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/gorilla/websocket"
	"github.com/stretchr/testify/require"

	"github.com/heartwheel-go/heartwheel/examples/internal/exampletest"
)

// Run tests an example that sends each message back.
func Run(t *testing.T, serve func(ctx context.Context, addr string, timeout time.Duration, logger *slog.Logger) error) {
	for name, test := range map[string]func(*testing.T, *exampletest.Server){
		"who talks stays, and who does not answer goes": talks,
		"who answers pings stays":                       answers,
		"bytes of a message are no life":                trickles,
		"who says goodbye gets one":                     leaves,
		"who sends too much goes":                       floods,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			test(t, exampletest.Serve(t, serve))
		})
	}
	t.Run("a server that stops says so", func(t *testing.T) {
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
	})
	t.Run("interrupt", func(t *testing.T) {
		t.Parallel()
		exampletest.Interrupt(t, serve)
	})
}

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
	kind, answer, err := c.ReadMessage()
	if err == nil && (string(answer) != text || kind != websocket.TextMessage) {
		err = fmt.Errorf("got %q", answer)
	}
	return err
}

// closed reads until the server says goodbye.
func closed(c *websocket.Conn, text string) func() error {
	return func() error {
		_, _, err := c.ReadMessage()
		if goodbye, ok := errors.AsType[*websocket.CloseError](err); !ok || goodbye.Code != websocket.CloseGoingAway || goodbye.Text != text {
			return fmt.Errorf("no close frame: %w", err)
		}
		return nil
	}
}

func talks(t *testing.T, s *exampletest.Server) {
	c := dial(t, s)
	c.SetPingHandler(func(string) error { return nil }) // like a hanging program
	last := exampletest.Talk(t, func() error { return say(c, strings.Repeat("x", 20_000)) })
	exampletest.Gone(t, last, closed(c, "no_answer"))
	s.Logs(t, "reason=no_answer")
}

func answers(t *testing.T, s *exampletest.Server) {
	c := dial(t, s)
	pings := make(chan struct{}, 100)
	pong := c.PingHandler()
	c.SetPingHandler(func(data string) error { pings <- struct{}{}; return pong(data) })
	heard := make(chan string, 1)
	go func() { // reading answers pings
		defer close(heard)
		for {
			_, answer, err := c.ReadMessage()
			if err != nil {
				return
			}
			heard <- string(answer)
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
	require.Equal(t, "still here", <-heard)
	c.Close()
	<-heard
}

func trickles(t *testing.T, s *exampletest.Server) {
	c := dial(t, s)
	last := time.Now()
	require.NoError(t, say(c, "hello"))
	c.SetPingHandler(func(string) error { return nil })                     // a pong would be bytes of the message
	exampletest.Trickle(t, c.NetConn(), "\x81\xfe\xff\xff\x01\x02\x03\x04") // text, masked, of 64 KiB
	exampletest.Gone(t, last, closed(c, "no_answer"))
}

func leaves(t *testing.T, s *exampletest.Server) {
	c := dial(t, s)
	require.NoError(t, say(c, "hello"))
	answered := make(chan string, 1)
	c.SetPongHandler(func(data string) error { answered <- data; return nil })
	require.NoError(t, c.WriteControl(websocket.PingMessage, []byte("you?"), time.Now().Add(exampletest.Late)))
	goodbye := websocket.FormatCloseMessage(websocket.CloseNormalClosure, "")
	require.NoError(t, c.WriteControl(websocket.CloseMessage, goodbye, time.Now().Add(exampletest.Late)))
	_, _, err := c.ReadMessage()
	require.True(t, websocket.IsCloseError(err, websocket.CloseNormalClosure), "%v", err)
	require.Equal(t, "you?", <-answered)
	s.Logs(t, "reason=local")
}

func floods(t *testing.T, s *exampletest.Server) {
	c := dial(t, s)
	_, err := c.NetConn().Write([]byte("\x82\xff\x00\x00\x01\x00\x00\x00\x00\x00mask")) // a frame of a terabyte
	require.NoError(t, err)
	_, _, err = c.ReadMessage()
	require.Error(t, err)
	s.Logs(t, "msg=closed")
}
