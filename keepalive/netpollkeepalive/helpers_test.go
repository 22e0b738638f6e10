//go:build !windows

package netpollkeepalive

import (
	"context"
	"net"
	"os"
	"path/filepath"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/cloudwego/netpoll"
	"github.com/stretchr/testify/require"

	"github.com/heartwheel-go/heartwheel/keepalive"
)

// serve starts an event loop on loopback, and stops it after the test.
func serve(t testing.TB, k *keepalive.Keeper, network string, h Handler, options ...netpoll.Option) net.Addr {
	loop, err := NewEventLoop(k, h, options...)
	require.NoError(t, err)
	t.Cleanup(func() { // after Shutdown
		require.Eventually(t, func() bool { return k.Len() == 0 }, eternal, time.Millisecond)
	})
	return start(t, network, loop)
}

func start(t testing.TB, network string, loop netpoll.EventLoop) net.Addr {
	address := "127.0.0.1:0"
	if network == "unix" {
		address = filepath.Join(t.TempDir(), "socket")
	}
	inner, err := net.Listen(network, address)
	require.NoError(t, err)
	ln := &listener{Listener: inner}
	ln.file, err = inner.(interface{ File() (*os.File, error) }).File()
	require.NoError(t, err)
	ln.fd = int(ln.file.Fd())
	require.NoError(t, syscall.SetNonblock(ln.fd, true))
	var serving sync.WaitGroup
	serving.Go(func() { _ = loop.Serve(ln) })
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
		defer cancel()
		if err := loop.Shutdown(ctx); err != nil {
			// netpoll waits in vain for a connection that its peer closed between the poller's first look at it
			// and its row in netpoll's table.
			require.ErrorIs(t, err, context.DeadlineExceeded)
		}
		serving.Wait()
	})
	return inner.Addr()
}

// listener is netpoll's with another Close: netpoll's closes its descriptor twice, the second time
// perhaps somebody else's.
type listener struct {
	net.Listener
	file *os.File
	fd   int
}

func (l *listener) Fd() int { return l.fd }

func (l *listener) Accept() (net.Conn, error) {
	fd, peer, err := syscall.Accept(l.fd)
	if err == syscall.EAGAIN {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	return &accepted{fd: fd, local: l.Addr(), remote: address(peer)}, nil
}

func (l *listener) Close() error {
	_ = l.file.Close()
	return l.Listener.Close()
}

func address(peer syscall.Sockaddr) net.Addr {
	if in, ok := peer.(*syscall.SockaddrInet4); ok {
		return &net.TCPAddr{IP: in.Addr[:], Port: in.Port}
	}
	return &net.UnixAddr{Net: "unix"}
}

// accepted has all that netpoll asks for.
type accepted struct {
	net.Conn
	fd            int
	local, remote net.Addr
}

func (a *accepted) Fd() int              { return a.fd }
func (a *accepted) LocalAddr() net.Addr  { return a.local }
func (a *accepted) RemoteAddr() net.Addr { return a.remote }
