package keepalive

import (
	"io"
	"net"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

// Rates are measured over ten seconds, so the sockets are real and the time is a bubble's.

// The peer sends as fast as it can, and the handler reads more slowly than Rate.MinBytes.
func TestSlowHandlerIsNoPeerThatSendsTooSlowly(t *testing.T) {
	for _, network := range []string{"tcp", "unix"} {
		t.Run("network="+network, func(t *testing.T) {
			peer, inner := connect(t, network)
			go func() { _, _ = io.Copy(peer, endless{}) }() // until the end of the test
			synctest.Test(t, func(t *testing.T) {
				k := newKeeper(t, Config{Timeout: time.Minute, Rate: Rate{MinBytes: 1 << 20, Strikes: 2}})
				conn := k.Conn(inner)
				time.Sleep(time.Second / 4) // away from the Keeper's own instants
				for range 60 {
					_, err := io.ReadFull(conn, make([]byte, 100<<10))
					require.NoError(t, err)
					requireUnread(t, inner, 1)
					time.Sleep(time.Second)
				}
				require.NoError(t, conn.Close())
			})
		})
	}
}

// endless gives bytes for ever.
type endless struct{}

func (endless) Read(p []byte) (int, error) { return len(p), nil }

// The handler is away now and then. Afterwards it touches for all waiting heartbeats in one go.
func TestSlowHandlerIsNoPeerThatBeatsTooOften(t *testing.T) {
	good, bad := newBeating(t), newBeating(t)
	synctest.Test(t, func(t *testing.T) {
		k := newKeeper(t, Config{Timeout: time.Minute, Rate: Rate{MinBeat: 900 * ms, Strikes: 1}})
		good.conn, bad.conn = k.Conn(good.inner), k.Conn(bad.inner)
		time.Sleep(time.Second / 4) // away from the Keeper's own instants
		for second := range 120 {
			away := second/11%2 == 1
			good.beat(t, 1, away)
			if k.Len() == 2 {
				bad.beat(t, 2, away)
			}
			time.Sleep(time.Second)
		}
		require.True(t, Touch(good.conn))
		require.False(t, Touch(bad.conn))
		require.EqualValues(t, 1, k.Stats().Closed[ReasonTooMany])
		require.NoError(t, good.conn.Close())
	})
}

// beating is a connection with heartbeats from its peer.
type beating struct {
	peer, inner, conn net.Conn
	unread            int
}

func newBeating(t *testing.T) *beating {
	peer, inner := connect(t, "tcp")
	return &beating{peer: peer, inner: inner}
}

// beat sends some heartbeats. The handler reads all of them, unless it is away.
func (b *beating) beat(t *testing.T, beats int, away bool) {
	_, err := b.peer.Write(make([]byte, beats))
	require.NoError(t, err)
	b.unread += beats
	requireUnread(t, b.inner, b.unread) // a busy kernel takes its time
	if away {
		return
	}
	_, err = io.ReadFull(b.conn, make([]byte, b.unread))
	require.NoError(t, err)
	for ; b.unread > 0; b.unread-- {
		Touch(b.conn)
	}
}

// requireUnread waits until there are so many bytes to read, and leaves them there.
func requireUnread(t *testing.T, conn net.Conn, bytes int) {
	raw, err := conn.(syscall.Conn).SyscallConn()
	require.NoError(t, err)
	buf := make([]byte, bytes)
	require.NoError(t, raw.Read(func(fd uintptr) bool {
		n, _, _ := syscall.Recvfrom(int(fd), buf, syscall.MSG_PEEK)
		return n == bytes
	}))
}
