package keepalive

import (
	"fmt"
	"net"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

// Of these datagrams some have to wait for the program: by their number (net.unix.max_dgram_qlen) with unixgram, and by the
// buffer of the peer with unixpacket.
func TestDatagramsMayFillAUnixSocket(t *testing.T) {
	t.Parallel()
	eachActivity(t, activitiesHere(), func(t *testing.T, activity Activity) {
		for _, network := range []string{"unixgram", "unixpacket"} {
			for _, piece := range []int{1, 1000} {
				t.Run(fmt.Sprintf("network=%s/piece=%d", network, piece), func(t *testing.T) {
					t.Parallel()
					testFullQueue(t, connectUnix, network, activity, piece)
				})
			}
		}
	})
}

// connectUnix is connect for Unix sockets. A socket for datagrams has no connection.
func connectUnix(t testing.TB, network string) (peer, inner net.Conn) {
	if network != "unixgram" {
		return connect(t, network)
	}
	addr := &net.UnixAddr{Name: filepath.Join(t.TempDir(), "s"), Net: network}
	server, err := net.ListenUnixgram(network, addr)
	require.NoError(t, err)
	peer, err = net.DialUnix(network, nil, addr)
	require.NoError(t, err)
	t.Cleanup(func() { peer.Close(); server.Close() })
	return peer, server
}
