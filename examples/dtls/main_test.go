package main

import (
	"bufio"
	"context"
	"fmt"
	"log/slog"
	"net"
	"testing"
	"time"

	"github.com/pion/dtls/v3"
	"github.com/stretchr/testify/require"

	"github.com/heartwheel-go/heartwheel/examples/internal/exampletest"
	"github.com/heartwheel-go/heartwheel/internal/certtest"
)

func TestMain(m *testing.M) { exampletest.Main(m) }

func start(t *testing.T) *exampletest.Server {
	certificate, _ := certtest.New(t)
	return exampletest.Serve(t, func(ctx context.Context, addr string, timeout time.Duration, logger *slog.Logger) error {
		return serve(ctx, addr, timeout, logger, certificate)
	})
}

func TestWhoTalksStaysAndWhoIsSilentGoes(t *testing.T) {
	t.Parallel()
	s := start(t)
	addr, err := net.ResolveUDPAddr("udp", s.Addr)
	require.NoError(t, err)
	c, err := dtls.DialWithOptions("udp", addr, dtls.WithInsecureSkipVerify(true))
	require.NoError(t, err)
	defer c.Close()
	require.NoError(t, c.SetDeadline(time.Now().Add(exampletest.Late)))
	in := bufio.NewReader(c)
	last := exampletest.Talk(t, func() error {
		if _, err := fmt.Fprintln(c, "hello"); err != nil {
			return err
		}
		line, err := in.ReadString('\n')
		if err == nil && line != "hello\n" {
			return fmt.Errorf("got %q", line)
		}
		return err
	})
	exampletest.Gone(t, last, func() error {
		line, err := in.ReadString('\n')
		require.NoError(t, err)
		require.Equal(t, "BYE idle\n", line)
		return exampletest.EOF(in)()
	})
	s.Logs(t, "reason=idle")
}

func TestInterruptWhileItStarts(t *testing.T) {
	t.Parallel()
	certificate, _ := certtest.New(t)
	exampletest.Interrupt(t, func(ctx context.Context, addr string, timeout time.Duration, logger *slog.Logger) error {
		return serve(ctx, addr, timeout, logger, certificate)
	})
}
