package gnetkeepalive

import (
	"net"
	"testing"

	"github.com/stretchr/testify/require"
)

// gnet writes over the text of a zone when its connection is closed.
func TestAZoneOutlivesItsConnection(t *testing.T) {
	plain := &net.TCPAddr{IP: net.IPv4(192, 0, 2, 1), Port: 1}
	require.Same(t, plain, lasting(plain))
	scoped := &net.TCPAddr{IP: net.ParseIP("fe80::1"), Port: 1, Zone: "eth0"}
	kept := lasting(scoped)
	require.Equal(t, "[fe80::1%eth0]:1", kept.String())
	scoped.Zone = "?"
	require.Equal(t, "[fe80::1%eth0]:1", kept.String())
}
