package keepalive

import (
	"fmt"
	"net"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

// A Unix socket charges its bytes to the sender, and the sender may have a small buffer. Datagrams are counted
// besides (net.unix.max_dgram_qlen). So a few bytes may be all that the peer can send.
func TestFewBytesMayFillAUnixSocket(t *testing.T) {
	t.Parallel()
	eachActivity(t, activitiesHere(), func(t *testing.T, activity Activity) {
		for _, network := range []string{"unix", "unixpacket", "unixgram"} {
			t.Run(fmt.Sprintf("network=%s", network), func(t *testing.T) {
				t.Parallel()
				peer, inner := connectUnix(t, network)
				if network != "unixgram" { // the others have their limit
					require.NoError(t, peer.SetWriteBuffer(1))
				}
				testFullQueueOf(t, peer, inner, activity, 1)
			})
		}
	})
}

// connectUnix is connect for Unix sockets. A socket for datagrams has no connection.
func connectUnix(t *testing.T, network string) (peer *net.UnixConn, inner net.Conn) {
	if network != "unixgram" {
		a, b := connect(t, network)
		return a.(*net.UnixConn), b
	}
	addr := &net.UnixAddr{Name: filepath.Join(t.TempDir(), "s"), Net: network}
	server, err := net.ListenUnixgram(network, addr)
	require.NoError(t, err)
	peer, err = net.DialUnix(network, nil, addr)
	require.NoError(t, err)
	t.Cleanup(func() { peer.Close(); server.Close() })
	return peer, server
}
