package main

import (
	"bufio"
	"context"
	"fmt"
	"log/slog"
	"net"
	"sync/atomic"
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

// roaming is a socket whose address changes.
type roaming struct{ atomic.Pointer[net.UDPConn] }

func (r *roaming) move(t *testing.T) {
	pc, err := net.ListenPacket("udp", "127.0.0.1:0")
	require.NoError(t, err)
	t.Cleanup(func() { pc.Close() })
	before := r.Swap(pc.(*net.UDPConn))
	if before != nil {
		require.NoError(t, before.Close())
	}
}

func (r *roaming) ReadFrom(p []byte) (int, net.Addr, error) {
	for {
		socket := r.Load()
		n, from, err := socket.ReadFrom(p)
		if err == nil || socket == r.Load() {
			return n, from, err
		}
	}
}

func (r *roaming) WriteTo(p []byte, to net.Addr) (int, error) { return r.Load().WriteTo(p, to) }
func (r *roaming) Close() error                               { return r.Load().Close() }
func (r *roaming) LocalAddr() net.Addr                        { return r.Load().LocalAddr() }
func (*roaming) SetDeadline(time.Time) error                  { return nil }
func (*roaming) SetReadDeadline(time.Time) error              { return nil }
func (*roaming) SetWriteDeadline(time.Time) error             { return nil }

// A client with a connection id goes on from another address, and hears of its end there.
func TestAnAddressChangesDuringAConnection(t *testing.T) {
	t.Parallel()
	s := start(t)
	addr, err := net.ResolveUDPAddr("udp", s.Addr)
	require.NoError(t, err)
	socket := new(roaming)
	socket.move(t)
	c, err := dtls.ClientWithOptions(socket, addr, dtls.WithInsecureSkipVerify(true), dtls.WithConnectionIDGenerator(dtls.OnlySendCIDGenerator()))
	require.NoError(t, err)
	defer c.Close()
	require.NoError(t, c.SetDeadline(time.Now().Add(exampletest.Late)))
	in := bufio.NewReader(c)
	last := exampletest.Talk(t, func() error {
		socket.move(t)
		for begun := time.Now(); ; { // the answer to the address before may be lost
			if _, err := fmt.Fprintln(c, "hello"); err != nil {
				return err
			}
			require.NoError(t, c.SetReadDeadline(time.Now().Add(exampletest.Beat)))
			if _, err := in.ReadString('\n'); err == nil || time.Since(begun) > exampletest.Late {
				return err
			}
		}
	})
	require.NoError(t, c.SetReadDeadline(time.Now().Add(exampletest.Late)))
	exampletest.Gone(t, last, func() error {
		for {
			line, err := in.ReadString('\n')
			require.NoError(t, err)
			if line == "BYE idle\n" {
				return exampletest.EOF(in)()
			}
			require.Equal(t, "hello\n", line, "an answer that was late")
		}
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
