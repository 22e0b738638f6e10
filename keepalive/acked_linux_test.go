package keepalive

import (
	"io"
	"net"
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/heartwheel-go/heartwheel/internal/proctest"
)

// Acknowledged bytes are life, and bytes in our own socket are not. A connection has one timeout
// after the last acknowledgement. The kernel knows its instant only up to a round trip and a
// delayed acknowledgement.

// The peer hangs, so the kernel sends what fits, and then no more.
func TestSendfileToAPeerThatHangsHasOneTimeout(t *testing.T) {
	t.Parallel()
	eachActivity(t, readingActivities(), func(t *testing.T, activity Activity) {
		k := newNetKeeper(t, Config{Activity: activity})
		_, inner := connect(t, "tcp")
		conn := k.Conn(inner)
		file, err := os.Create(filepath.Join(t.TempDir(), "f"))
		require.NoError(t, err)
		defer file.Close()
		require.NoError(t, file.Truncate(64<<20))
		begin := time.Now()
		_, err = io.Copy(conn, file)
		requireIdleTimeout(t, err)
		require.GreaterOrEqual(t, time.Since(begin), timeout)
		require.Less(t, time.Since(begin), timeout*7/4+forgiven(k))
	})
}

// Our writes succeed all the time, since there is room in our socket for many small ones.
func TestWritesToAPeerThatAcknowledgesNothingAreNoLife(t *testing.T) {
	t.Parallel()
	for name, lose := range map[string]func(t *testing.T, peer, conn net.Conn) (last time.Time){
		"full":     fillWindow,
		"vanished": vanish,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			k := newNetKeeper(t, Config{Activity: ActivityReadWrite})
			peer, inner := connect(t, "tcp")
			require.NoError(t, inner.(*net.TCPConn).SetWriteBuffer(4<<20))
			conn := k.Conn(inner)
			last := lose(t, peer, conn)
			var err error
			for err == nil {
				time.Sleep(20 * ms)
				_, err = conn.Write([]byte("x"))
			}
			requireIdleTimeout(t, err)
			require.GreaterOrEqual(t, time.Since(last), timeout)
			require.Less(t, time.Since(last), timeout*7/4+forgiven(k))
		})
	}
}

// fillWindow writes more than the peer's socket takes, and returns when it began.
func fillWindow(t *testing.T, peer, conn net.Conn) (last time.Time) {
	require.NoError(t, peer.(*net.TCPConn).SetReadBuffer(16<<10))
	last = time.Now()
	_, err := conn.Write(make([]byte, 1<<20))
	require.NoError(t, err)
	return last
}

// vanish has the peer acknowledge something, and then drop everything. It returns when it began.
func vanish(t *testing.T, peer, conn net.Conn) (last time.Time) {
	last = time.Now()
	_, err := conn.Write([]byte("x"))
	require.NoError(t, err)
	_, err = peer.Read(make([]byte, 1))
	require.NoError(t, err)
	proctest.Vanish(t, peer.(syscall.Conn))
	return last
}

// The window of a slow reader is full nearly all the time, too. It says nothing, and lives.
func TestSlowReaderThatAcknowledgesLives(t *testing.T) {
	t.Parallel()
	for !testSlowReader(t) {
		continue
	}
}

// testSlowReader reports whether this machine was quick enough for the test: the window of a
// reader with long pauses opens too seldom.
func testSlowReader(t *testing.T) (quick bool) {
	k := newNetKeeper(t, Config{Activity: ActivityReadWrite})
	peer, inner := connect(t, "tcp")
	require.NoError(t, inner.(*net.TCPConn).SetWriteBuffer(4<<20))
	conn := k.Conn(inner)
	begin := fillWindow(t, peer, conn)
	for read := begin; time.Since(begin) < 2*timeout+timeout/2; time.Sleep(timeout / 20) {
		_, err := conn.Write([]byte("x"))
		if time.Since(read) > timeout/5 {
			return false
		}
		require.NoError(t, err)
		_, err = io.ReadFull(peer, make([]byte, 8<<10))
		require.NoError(t, err)
		read = time.Now()
	}
	require.NoError(t, conn.Close())
	return true
}
