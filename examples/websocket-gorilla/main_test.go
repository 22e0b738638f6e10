package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/coder/websocket"
	"github.com/stretchr/testify/require"

	"github.com/heartwheel-go/heartwheel/examples/internal/exampletest"
)

func TestMain(m *testing.M) { exampletest.Main(m) }

// dial connects with coder's client. conn is its connection.
func dial(t *testing.T, s *exampletest.Server, opts *websocket.DialOptions) (c *websocket.Conn, conn net.Conn) {
	transport := &http.Transport{DialContext: func(ctx context.Context, network, addr string) (_ net.Conn, err error) {
		conn, err = new(net.Dialer).DialContext(ctx, network, addr)
		return conn, err
	}}
	opts.HTTPClient = &http.Client{Transport: transport}
	c, _, err := websocket.Dial(t.Context(), "ws://"+s.Addr, opts)
	require.NoError(t, err)
	t.Cleanup(func() { c.CloseNow() })
	return c, conn
}

func say(t *testing.T, c *websocket.Conn, text string) error {
	if err := c.Write(t.Context(), websocket.MessageText, []byte(text)); err != nil {
		return err
	}
	_, answer, err := c.Read(t.Context())
	if err == nil && string(answer) != text {
		err = fmt.Errorf("got %q", answer)
	}
	return err
}

// closed reads until the server says goodbye.
func closed(t *testing.T, c *websocket.Conn, text string) func() error {
	return func() error {
		_, _, err := c.Read(t.Context())
		var goodbye websocket.CloseError
		if !errors.As(err, &goodbye) || goodbye.Code != websocket.StatusGoingAway || goodbye.Reason != text {
			return fmt.Errorf("no close frame: %w", err)
		}
		return nil
	}
}

// deaf is a client without answers to pings, like a hanging program.
var deaf = websocket.DialOptions{OnPingReceived: func(context.Context, []byte) bool { return false }}

func TestWhoTalksStaysAndWhoDoesNotAnswerGoes(t *testing.T) {
	t.Parallel()
	s := exampletest.Serve(t, serve)
	opts := deaf
	c, _ := dial(t, s, &opts)
	last := exampletest.Talk(t, func() error { return say(t, c, strings.Repeat("x", 20_000)) })
	exampletest.Gone(t, last, closed(t, c, "no_answer"))
	s.Logs(t, "reason=no_answer")
}

func TestWhoAnswersPingsStays(t *testing.T) {
	t.Parallel()
	pings := make(chan struct{}, 100)
	c, _ := dial(t, exampletest.Serve(t, serve), &websocket.DialOptions{
		OnPingReceived: func(context.Context, []byte) bool { pings <- struct{}{}; return true },
	})
	answers := make(chan string, 1)
	go func() { // reading answers pings
		defer close(answers)
		for {
			_, answer, err := c.Read(t.Context())
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
	require.NoError(t, c.Write(t.Context(), websocket.MessageText, []byte("still here")))
	require.Equal(t, "still here", <-answers)
	c.CloseNow()
	<-answers
}

func TestBytesOfAMessageAreNoLife(t *testing.T) {
	t.Parallel()
	s := exampletest.Serve(t, serve)
	opts := deaf
	c, conn := dial(t, s, &opts)
	last := time.Now()
	require.NoError(t, say(t, c, "hello"))
	exampletest.Trickle(t, conn, "\x81\xfe\xff\xff\x01\x02\x03\x04") // text, masked, of 64 KiB
	exampletest.Gone(t, last, closed(t, c, "no_answer"))
}

func TestAServerThatStopsSaysSo(t *testing.T) {
	t.Parallel()
	var c *websocket.Conn
	t.Run("server", func(t *testing.T) {
		s := exampletest.Serve(t, serve)
		var err error
		c, _, err = websocket.Dial(context.Background(), "ws://"+s.Addr, nil)
		require.NoError(t, err)
		require.NoError(t, say(t, c, "hello"))
	})
	defer c.CloseNow()
	require.NoError(t, closed(t, c, "drain")())
}

func TestInterruptWhileItStarts(t *testing.T) {
	t.Parallel()
	exampletest.Interrupt(t, serve)
}
