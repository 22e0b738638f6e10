package keepalive

import (
	"io"
	"net"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

func writeBuffers(conn net.Conn, texts ...string) (int64, error) {
	var buffers net.Buffers
	for _, text := range texts {
		buffers = append(buffers, []byte(text))
	}
	return conn.(io.ReaderFrom).ReadFrom(&buffers)
}

// Buffers given to ReadFrom are written, and no transfer: with ActivityRead they are no life.
func TestBuffersCountAsAWrite(t *testing.T) {
	t.Parallel()
	for activity, lives := range map[Activity]bool{ActivityRead: false, ActivityReadWrite: true, ActivityManual: false} {
		synctest.Test(t, func(t *testing.T) {
			const timeout = 10 * time.Second
			k := newKeeper(t, Config{Timeout: timeout, Activity: activity})
			peer, inner := net.Pipe()
			conn := k.Conn(inner)
			begun := time.Now()
			go func() {
				heard, _ := io.ReadAll(peer)
				if string(heard) != "hello, world" {
					t.Errorf("the peer has heard %q", heard)
				}
			}()
			time.Sleep(timeout * 3 / 4)
			n, err := writeBuffers(conn, "hello", ", ", "world")
			require.NoError(t, err)
			require.EqualValues(t, 12, n)
			_, err = conn.Read(make([]byte, 1))
			requireIdleTimeout(t, err)
			require.Equal(t, lives, time.Since(begun) > timeout*3/2, activity)
			n, err = writeBuffers(conn, "too late")
			requireIdleTimeout(t, err)
			require.Zero(t, n)
		})
	}
}

// A write that fails says that the peer has gone.
func TestBuffersToAPeerThatHasGone(t *testing.T) {
	t.Parallel()
	ended := make(chan Reason, 1)
	k := newNetKeeper(t, Config{OnClose: func(_ any, reason Reason) { ended <- reason }})
	peer, inner := connect(t, "tcp")
	conn := k.Conn(inner)
	require.NoError(t, peer.(*net.TCPConn).SetLinger(0))
	require.NoError(t, peer.Close())
	require.Eventually(t, func() bool {
		_, err := writeBuffers(conn, "a", "b")
		return err != nil
	}, eternal, ms)
	require.NoError(t, conn.Close())
	require.Equal(t, ReasonPeer, <-ended)
}
