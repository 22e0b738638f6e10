//go:build unix

package server

import (
	"net"
	"os"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// gnet stops when it runs out of descriptors, and says nothing. The server does.
func TestRunningOutOfDescriptorsIsAnError(t *testing.T) {
	r := start(t, Config{Loops: 1})
	var before syscall.Rlimit
	require.NoError(t, syscall.Getrlimit(syscall.RLIMIT_NOFILE, &before))
	defer func() { require.NoError(t, syscall.Setrlimit(syscall.RLIMIT_NOFILE, &before)) }()
	lowered := before
	lowered.Cur = 200
	require.NoError(t, syscall.Setrlimit(syscall.RLIMIT_NOFILE, &lowered))
	var files []*os.File
	defer func() {
		for _, f := range files {
			f.Close()
		}
	}()
	for {
		f, err := os.Open(os.DevNull)
		if err != nil {
			require.ErrorIs(t, err, syscall.EMFILE)
			break
		}
		files = append(files, f)
	}
	files[0].Close() // one for the client, and none for the server
	if client, err := net.Dial("tcp", r.Addr().String()); err == nil {
		defer client.Close() // if gnet has not closed it already
	}
	select {
	case err := <-r.result:
		require.ErrorIs(t, err, ErrStopped)
	case <-time.After(eternal):
		t.Fatal("still running")
	}
}
