package main

import (
	"bufio"
	"context"
	"crypto/tls"
	"fmt"
	"log/slog"
	"testing"
	"time"

	"github.com/quic-go/quic-go"
	"github.com/stretchr/testify/require"

	"github.com/heartwheel-go/heartwheel/examples/internal/exampletest"
	"github.com/heartwheel-go/heartwheel/internal/certtest"
)

func TestMain(m *testing.M) { exampletest.Main(m) }

// client is quic-go's. It keeps its connection alive by QUIC's own pings.
type client struct {
	*quic.Conn
	stream  *quic.Stream
	answers *bufio.Reader
}

func start(t *testing.T) (*exampletest.Server, func(*testing.T) *client) {
	certificate, roots := certtest.New(t)
	config := &tls.Config{Certificates: []tls.Certificate{certificate}, NextProtos: []string{"lines"}, MinVersion: tls.VersionTLS13}
	s := exampletest.Serve(t, func(ctx context.Context, addr string, timeout time.Duration, logger *slog.Logger) error {
		return serve(ctx, addr, timeout, logger, config)
	})
	return s, func(t *testing.T) *client {
		conn, err := quic.DialAddr(t.Context(), s.Addr,
			&tls.Config{RootCAs: roots, NextProtos: []string{"lines"}, MinVersion: tls.VersionTLS13},
			&quic.Config{KeepAlivePeriod: exampletest.Beat, MaxIdleTimeout: exampletest.Late})
		require.NoError(t, err)
		t.Cleanup(func() { _ = conn.CloseWithError(0, "") })
		stream, err := conn.OpenStreamSync(t.Context())
		require.NoError(t, err)
		return &client{conn, stream, bufio.NewReader(stream)}
	}
}

func (c *client) say(line string) error {
	if _, err := fmt.Fprintln(c.stream, line); err != nil {
		return err
	}
	answer, err := c.answers.ReadString('\n')
	if err == nil && answer != line+"\n" {
		err = fmt.Errorf("got %q", answer)
	}
	return err
}

// ended waits for the end of the connection, and requires a code of the server.
func (c *client) ended(want quic.ApplicationErrorCode) func() error {
	return func() error {
		<-c.Context().Done()
		why := context.Cause(c.Context())
		if !isFrom(why, want) {
			return fmt.Errorf("another reason: %w", why)
		}
		return nil
	}
}

func isFrom(err error, want quic.ApplicationErrorCode) bool {
	e, ok := err.(*quic.ApplicationError) //nolint:errorlint // a cause is not wrapped
	return ok && e.Remote && e.ErrorCode == want
}

func TestWhoTalksStaysAndAHangingProgramGoes(t *testing.T) {
	t.Parallel()
	s, dial := start(t)
	c := dial(t)
	last := exampletest.Talk(t, func() error { return c.say("hello") })
	exampletest.Gone(t, last, c.ended(silent)) // although its library pings
	s.Logs(t, "silent")
}

func TestWhoOpensNoStreamGoes(t *testing.T) {
	t.Parallel()
	_, dial := start(t)
	last := time.Now()
	exampletest.Gone(t, last, dial(t).ended(silent))
}

func TestAServerThatStopsSaysSo(t *testing.T) {
	t.Parallel()
	outer := t // its end closes the connection
	var c *client
	t.Run("server", func(t *testing.T) {
		_, dial := start(t)
		c = dial(outer)
		require.NoError(t, c.say("hello"))
	})
	require.NoError(t, c.ended(stopping)())
}

func TestInterruptWhileItStarts(t *testing.T) {
	t.Parallel()
	certificate, _ := certtest.New(t)
	config := &tls.Config{Certificates: []tls.Certificate{certificate}, NextProtos: []string{"lines"}, MinVersion: tls.VersionTLS13}
	exampletest.Interrupt(t, func(ctx context.Context, addr string, timeout time.Duration, logger *slog.Logger) error {
		return serve(ctx, addr, timeout, logger, config)
	})
}
