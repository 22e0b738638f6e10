package port

import (
	"context"
	"net"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/heartwheel-go/heartwheel/internal/proctest"
)

// A client may come while the port is claimed. The next listener serves it.
func TestAClientThatComesTooEarlyWaits(t *testing.T) {
	var plain net.ListenConfig
	plain.SetMultipathTCP(false) // it has no filters
	probe, err := plain.Listen(t.Context(), "tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer probe.Close()
	proctest.Vanish(t, probe.(*net.TCPListener)) // a claim needs such a filter

	claim, addr, err := Claim("127.0.0.1:0")
	require.NoError(t, err)
	defer claim.Close()
	dialed := make(chan net.Conn, 1)
	go func() {
		dialer := net.Dialer{Timeout: time.Minute}
		conn, err := dialer.DialContext(t.Context(), "tcp", addr)
		if err != nil {
			t.Error(err)
		}
		dialed <- conn
	}()
	time.Sleep(100 * time.Millisecond) // for its first SYN
	require.Empty(t, dialed)

	shared := net.ListenConfig{Control: func(_, _ string, raw syscall.RawConn) error {
		return raw.Control(func(fd uintptr) { _ = unix.SetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_REUSEPORT, 1) })
	}}
	ln, err := shared.Listen(context.Background(), "tcp", addr)
	require.NoError(t, err)
	defer ln.Close()
	require.NoError(t, claim.Close())
	accepted, err := ln.Accept()
	require.NoError(t, err)
	defer accepted.Close()
	conn := <-dialed
	require.NotNil(t, conn)
	defer conn.Close()
	_, err = accepted.Write([]byte("x"))
	require.NoError(t, err)
	n, err := conn.Read(make([]byte, 1))
	require.NoError(t, err)
	require.Equal(t, 1, n)
}
