package tcpsocket

import (
	"context"
	"io"
	"net"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

const (
	eternal = time.Minute
	ipv6    = "[::1]:0"
)

func ask(t *testing.T, c net.Conn) (s Sent, ok bool) {
	raw, err := c.(syscall.Conn).SyscallConn()
	require.NoError(t, err)
	require.NoError(t, raw.Control(func(fd uintptr) { s, ok = AskSent(fd) }))
	return s, ok
}

func pair(t *testing.T, network, addr string) (client, server net.Conn) {
	ln, err := net.Listen(network, addr)
	if addr == ipv6 && err != nil {
		t.Skip(err)
	}
	require.NoError(t, err)
	defer ln.Close()
	client, err = net.Dial(network, ln.Addr().String())
	require.NoError(t, err)
	server, err = ln.Accept()
	require.NoError(t, err)
	t.Cleanup(func() {
		client.Close()
		server.Close()
	})
	return client, server
}

func TestASocketTellsWhatItsPeerHasAcknowledged(t *testing.T) {
	for name, addr := range map[string]string{"IPv4": "127.0.0.1:0", "IPv6": ipv6} {
		t.Run(name, func(t *testing.T) {
			client, server := pair(t, "tcp", addr)
			rest, ok := ask(t, client)
			require.True(t, ok)
			require.False(t, rest.Pending)

			require.NoError(t, client.(*net.TCPConn).SetWriteBuffer(32<<10))
			require.NoError(t, server.(*net.TCPConn).SetReadBuffer(32<<10))
			const size = 2 << 20 // more than there is room for while the peer does not read
			written := make(chan error, 1)
			go func() {
				_, err := client.Write(make([]byte, size))
				written <- err
			}()
			require.Eventually(t, func() bool {
				s, ok := ask(t, client)
				return ok && s.Pending && s.Acknowledged > rest.Acknowledged && s.Acknowledged < s.Written
			}, eternal, time.Millisecond)
			_, err := io.CopyN(io.Discard, server, size)
			require.NoError(t, err)
			require.NoError(t, <-written)
			var s Sent
			require.Eventually(t, func() bool {
				s, ok = ask(t, client)
				return ok && !s.Pending
			}, eternal, time.Millisecond)
			require.EqualValues(t, size, s.Written-rest.Written)
			require.EqualValues(t, size, s.Acknowledged-rest.Acknowledged)
		})
	}
}

func TestOtherSocketsTellNothing(t *testing.T) {
	client, _ := pair(t, "unix", "@"+t.Name())
	_, ok := ask(t, client)
	require.False(t, ok)
	udp, err := net.ListenPacket("udp", "127.0.0.1:0")
	require.NoError(t, err)
	defer udp.Close()
	_, ok = ask(t, udp.(net.Conn))
	require.False(t, ok)

	var several net.Dialer
	several.SetMultipathTCP(true)
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer ln.Close()
	paths, err := several.DialContext(context.Background(), "tcp", ln.Addr().String())
	require.NoError(t, err)
	defer paths.Close()
	if raw, err := paths.(syscall.Conn).SyscallConn(); err == nil {
		_ = raw.Control(func(fd uintptr) {
			if !Tells(fd) {
				_, ok = AskSent(fd)
			}
		})
	}
	require.False(t, ok)
}
