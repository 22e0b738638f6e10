package keepalive

import (
	"net"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// The kernel counts the segments with data.
func TestBuffersAreOneWritev(t *testing.T) {
	t.Parallel()
	k := newNetKeeper(t, Config{})
	peer, inner := connect(t, "tcp")
	conn := k.Conn(inner)
	raw, err := inner.(*net.TCPConn).SyscallConn()
	require.NoError(t, err)
	segments := func() (n uint32) {
		require.NoError(t, raw.Control(func(fd uintptr) {
			info, err := unix.GetsockoptTCPInfo(int(fd), unix.IPPROTO_TCP, unix.TCP_INFO)
			require.NoError(t, err)
			n = info.Data_segs_out
		}))
		return n
	}
	const buffers, size = 64, 10
	before := segments()
	n, err := writeBuffers(conn, slices.Repeat([]string{"0123456789"}, buffers)...)
	require.NoError(t, err)
	require.EqualValues(t, buffers*size, n)
	buf := make([]byte, buffers*size)
	for heard := 0; heard < len(buf); {
		n, err := peer.Read(buf)
		require.NoError(t, err)
		heard += n
	}
	require.Less(t, segments()-before, uint32(buffers/4), "one, and those sent again")
}
