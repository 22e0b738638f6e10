//go:build interop && linux

package keepalive

import (
	"fmt"
	"io"
	"net/http"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// Clients that nobody here wrote take a long answer slowly, or stop to take it: curl in the middle of a download, and of an
// event stream, and nc, which writes to a pipe that nobody reads.
func TestStoppedClientsAreClosed(t *testing.T) {
	const stall = 3 * time.Second
	k := newKeeper(t, Config{Timeout: eternal, Tick: 10 * ms, WriteStall: stall})
	ended := make(chan error, 1)
	addr := serve(t, k, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var err error
		switch r.URL.Path {
		case "/events":
			for err == nil {
				_, err = fmt.Fprintf(w, "data: %s\n\n", strings.Repeat("x", 1000))
				_ = http.NewResponseController(w).Flush()
			}
		case "/slow":
			_, err = w.Write(make([]byte, 48<<20))
		default:
			_, err = w.Write(make([]byte, 256<<20))
		}
		ended <- err
	}), nil)

	slow := exec.Command("curl", "-sS", "http://"+addr+"/slow")
	pipe, err := slow.StdoutPipe()
	require.NoError(t, err)
	begin := time.Now()
	require.NoError(t, slow.Start())
	for range 48 {
		time.Sleep(stall / 12)
		_, err := io.ReadFull(pipe, make([]byte, 1<<20))
		require.NoError(t, err, "after %v", time.Since(begin))
	}
	require.NoError(t, slow.Wait())
	require.NoError(t, <-ended)

	for _, args := range [][]string{
		{"curl", "-sS", "http://" + addr + "/download"},
		{"curl", "-sSN", "http://" + addr + "/events"},
		{"nc", "127.0.0.1", addr[strings.LastIndexByte(addr, ':')+1:]},
	} {
		cmd := exec.Command(args[0], args[1:]...)
		stdin, err := cmd.StdinPipe()
		require.NoError(t, err)
		pipe, err := cmd.StdoutPipe()
		require.NoError(t, err)
		require.NoError(t, cmd.Start())
		_, err = fmt.Fprint(stdin, "GET / HTTP/1.1\r\nHost: x\r\n\r\n") // for nc; curl does not read it
		require.NoError(t, err)
		_, err = io.ReadFull(pipe, make([]byte, 1<<20))
		require.NoError(t, err)
		if args[0] == "curl" {
			require.NoError(t, cmd.Process.Signal(syscall.SIGSTOP))
		}
		last := time.Now()
		err = <-ended
		t.Logf("%v: %v after %v", args, err, time.Since(last))
		require.ErrorIs(t, err, ReasonWriteStall)
		require.GreaterOrEqual(t, time.Since(last), stall)
		require.NoError(t, cmd.Process.Kill())
		_ = pipe.Close()
		_ = cmd.Wait()
	}
	// The program hears of the end by its write, and the Keeper counts it a moment later.
	require.Eventually(t, func() bool { return k.Stats().Closed[ReasonWriteStall] == 3 }, 10*time.Second, time.Millisecond)
}
