//go:build interop

package main

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/heartwheel-go/heartwheel/examples/internal/exampletest"
)

// curl asks for WebSocket, and knows nothing of it: it shows what comes.
func TestCurl(t *testing.T) {
	t.Parallel()
	s := exampletest.Serve(t, serve)
	began := time.Now()
	out := exampletest.Output(t, exampletest.Program(t, "curl", "curl", "-sSN", "--http1.1", "--max-time", "30",
		"-H", "Connection: Upgrade", "-H", "Upgrade: websocket", "-H", "Sec-WebSocket-Version: 13",
		"-H", "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==", "http://"+s.Addr))
	require.True(t, strings.HasPrefix(out, "\x89"), "a ping: %q", out)
	require.True(t, strings.HasSuffix(out, "\x88\x0b\x03\xe9no_answer"), "and 1001: %q", out)
	require.GreaterOrEqual(t, time.Since(began), exampletest.Timeout)
}
