// Package haproxytest starts HAProxy for tests.
package haproxytest

import (
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/heartwheel-go/heartwheel/internal/port"
	"github.com/heartwheel-go/heartwheel/internal/testmain"
)

// Start starts HAProxy before a server, and returns its address. mode is tcp or http, and patience how long either side may
// be silent. options are those of HAProxy's server line, such as send-proxy. HAProxy ends with the test.
func Start(t testing.TB, server, mode string, patience time.Duration, options string) (addr string) {
	t.Helper()
	testmain.NeedProgram(t, "haproxy", "scripts/install-clients")
	free, err := port.Free()
	require.NoError(t, err)
	addr = net.JoinHostPort("127.0.0.1", free)
	config := filepath.Join(t.TempDir(), "haproxy.cfg")
	require.NoError(t, os.WriteFile(config, fmt.Appendf(nil, `
defaults
	mode %[1]s
	timeout connect 10s
	timeout client %[2]dms
	timeout server %[2]dms
listen front
	bind %[3]s
	server behind %[4]s %[5]s
`, mode, patience.Milliseconds(), addr, server, options), 0o600))
	cmd := exec.Command("haproxy", "-db", "-f", config)
	require.NoError(t, cmd.Start())
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	})
	require.Eventually(t, func() bool {
		c, err := net.Dial("tcp", addr)
		if err == nil {
			c.Close()
		}
		return err == nil
	}, time.Minute, 10*time.Millisecond, "HAProxy does not listen")
	return addr
}
