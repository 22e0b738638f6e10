//go:build unix

package main

import (
	"io"
	"net"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// Peers say nothing, don't close after the goodbye, and come back at once. They must leave a
// descriptor to accept with: gnet would end.
func TestPeersThatStayUseUpNoDescriptors(t *testing.T) {
	t.Parallel() // it mostly waits
	p := start(t, process{limit: 200, args: []string{
		"-admin", "127.0.0.1:0", "-loops", "2", "-tick", "10ms",
		"-first-message", "100ms", "-close-mode", "half", "-farewell-timeout", "2s",
	}})
	addr := p.addr(t, "server")
	require.Eventually(t, func() bool { // the server may not be running yet
		comeAndStay(addr)
		return len(p.log.Lines("being closed still have their descriptors")) > 0
	}, eternal, 100*time.Millisecond)
	status, body := p.get(t, "/metrics")
	require.Equal(t, 200, status)
	require.Regexp(t, `\necho_heartbeat_crowded_total [1-9]`, body)
	require.Eventually(t, func() bool { // as soon as some have gone
		c, err := net.Dial("tcp", addr)
		if err != nil {
			return false
		}
		defer c.Close()
		_ = c.SetDeadline(time.Now().Add(eternal))
		_, _ = io.WriteString(c, "QUIT\n")
		b, _ := io.ReadAll(c)
		return string(b) == "BYE\n"
	}, eternal, 50*time.Millisecond)
	require.NoError(t, p.cmd.Process.Signal(syscall.SIGTERM))
	require.NoError(t, p.wait())
}

// comeAndStay connects many peers within half a second.
func comeAndStay(addr string) {
	var peers sync.WaitGroup
	for range 8 {
		peers.Go(func() {
			for range 80 {
				if c, err := net.Dial("tcp", addr); err == nil {
					defer c.Close() // but not before the end
				}
				time.Sleep(5 * time.Millisecond)
			}
		})
	}
	peers.Wait()
}
