package cli

import (
	"net/http"
	"testing"

	"github.com/stretchr/testify/require"
)

// Over HTTP/2 all calls would wait on a dead connection, and Work tells of no other.
func TestTheCommandsLeaveADeadConnection(t *testing.T) {
	var said recorder
	c, err := newClient("https://127.0.0.1:1", func(string) (string, bool) { return "", false }, &said)
	require.NoError(t, err)
	transport := said.RoundTripper.(*http.Transport)
	require.NotNil(t, transport.HTTP2)
	require.NotZero(t, transport.HTTP2.SendPingTimeout)
	closed := &closing{RoundTripper: transport}
	said.RoundTripper = closed
	c.Close()
	require.True(t, closed.idle)
}

// closing notes that idle connections are closed.
type closing struct {
	http.RoundTripper
	idle bool
}

func (c *closing) CloseIdleConnections() { c.idle = true }
