package keepalive

import (
	"cmp"
	"io"
	"net"
	"os"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// A probe behind a backlog would not be seen, and could only get stuck.
func TestNoProbeBehindABacklog(t *testing.T) {
	k := newKeeper(t, Config{Timeout: 600 * ms})
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer ln.Close()
	peer, err := net.Dial("tcp", ln.Addr().String())
	require.NoError(t, err)
	defer peer.Close()
	conn, err := k.Listener(ln).Accept()
	require.NoError(t, err)
	defer conn.Close()

	var probes atomic.Int32
	g := Of(conn)
	require.NoError(t, g.upgrade(func() error { probes.Add(1); return nil }, nil))
	for n := 1; n > 0 || !g.look().Backlog; { // the peer takes what its buffer can, and no more
		require.NoError(t, conn.SetWriteDeadline(time.Now().Add(50*ms)))
		n, err = conn.Write(make([]byte, 1<<20))
		require.ErrorIs(t, cmp.Or(err, os.ErrDeadlineExceeded), os.ErrDeadlineExceeded)
		require.True(t, g.Touch())
	}
	last := time.Now()
	probes.Store(0)
	_, err = io.Copy(io.Discard, conn)
	require.ErrorIs(t, err, ReasonNoAnswer)
	require.GreaterOrEqual(t, time.Since(last), 600*ms)
	require.Zero(t, probes.Load())
}
