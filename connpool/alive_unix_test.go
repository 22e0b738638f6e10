//go:build unix

package connpool

import (
	"context"
	"errors"
	"io"
	"net"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestAliveSeesWhatThePeerDoes(t *testing.T) {
	write := func(c net.Conn) error { _, err := c.Write([]byte("-ERR")); return err }
	for _, network := range []string{"tcp", "unix"} {
		for name, test := range map[string]struct {
			do   func(c net.Conn) error
			want error
		}{
			"close":   {net.Conn.Close, io.EOF},
			"half":    {func(c net.Conn) error { return c.(interface{ CloseWrite() error }).CloseWrite() }, io.EOF},
			"write":   {write, ErrUnread},
			"goodbye": {func(c net.Conn) error { return errors.Join(write(c), c.Close()) }, nil},
		} {
			t.Run(network+"/"+name, func(t *testing.T) {
				here, there := pair(t, network)
				for range 3 {
					require.NoError(t, Alive(bg, here))
				}
				require.NoError(t, test.do(there))
				require.Eventually(t, func() bool { return Alive(bg, here) != nil }, eternal, ms)
				if test.want != nil {
					require.ErrorIs(t, Alive(bg, here), test.want)
				}
			})
		}
	}
}

// The server closes its idle connections, and the pool would keep them. With Alive, no
// request fails.
func TestPoolWithAliveNeverHandsOutWhatTheServerHasClosed(t *testing.T) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	var accepted []net.Conn
	served := make(chan struct{})
	next := make(chan net.Conn)
	go func() {
		defer close(served)
		for {
			c, err := ln.Accept()
			if err != nil {
				return
			}
			next <- c
		}
	}()
	defer func() {
		ln.Close()
		<-served
		for _, c := range accepted {
			c.Close()
		}
	}()
	var d net.Dialer
	p, err := New(Config[net.Conn]{
		Dial:  func(ctx context.Context) (net.Conn, error) { return d.DialContext(ctx, "tcp", ln.Addr().String()) },
		Check: Alive,
	})
	require.NoError(t, err)
	defer p.Close()
	for range 20 {
		l, err := p.Get(bg)
		require.NoError(t, err)
		require.False(t, l.Reused())
		server := <-next
		accepted = append(accepted, server)
		require.NoError(t, l.Put())
		l, err = p.Get(bg)
		require.NoError(t, err)
		require.True(t, l.Reused())
		require.NoError(t, l.Put())
		require.NoError(t, server.Close())
		require.Eventually(t, func() bool { return Alive(bg, l.Conn) != nil }, eternal, ms)
	}
	require.Eventually(t, func() bool { return p.Stats().Closed[ReasonCheck] == 19 }, eternal, ms)
}
