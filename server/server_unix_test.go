//go:build unix

package server

import (
	"bufio"
	"context"
	"io"
	"net"
	"os"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/heartwheel-go/heartwheel/internal/rlimit"
)

// The loops themselves take descriptors, and so does the rest of the program.
func TestServerFitsIntoALowDescriptorLimit(t *testing.T) {
	var before syscall.Rlimit
	require.NoError(t, syscall.Getrlimit(syscall.RLIMIT_NOFILE, &before))
	defer func() { require.NoError(t, syscall.Setrlimit(syscall.RLIMIT_NOFILE, &before)) }()
	files := make([]*os.File, 100)
	for i := range files {
		f, err := os.Open(os.DevNull)
		require.NoError(t, err)
		defer f.Close()
		files[i] = f
	}
	lowered := before
	lowered.Cur = 500
	require.NoError(t, syscall.Setrlimit(syscall.RLIMIT_NOFILE, &lowered))
	s, err := New(Config{Addr: "127.0.0.1:0", Loops: 32})
	require.NoError(t, err)
	require.Less(t, s.Config().Room.MaxConns, 500-100-3*32-rlimit.MinSpare)
	result := make(chan error, 1)
	ctx, cancel := context.WithCancel(context.Background())
	go func() { result <- s.Run(ctx) }()
	<-s.Ready()
	room := s.Config().Room.MaxConns + rlimit.Open()
	require.Less(t, room+rlimit.MinSpare/2, 500, "with all connections and the loops' own there is some to spare")
	cancel()
	require.NoError(t, <-result)
}

// gnet stops when it runs out of descriptors, and says nothing. The server does.
func TestRunningOutOfDescriptorsIsAnError(t *testing.T) {
	r := start(t, Config{Loops: 1})
	require.Equal(t, "PONG\n", ask(t, r.dial(t), "PING\n"), "all loops have begun")
	files := takeAllDescriptors(t)
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

// With a Listener it is only a pause. If some descriptor of an earlier test is closed meanwhile, the
// accept succeeds and gnet lacks one: then the client is told by EOF, and comes again.
func TestListenerOutlivesALackOfDescriptors(t *testing.T) {
	r := startOn(t, listen(t), Config{Loops: 1})
	alive := r.dial(t)
	require.Equal(t, "PONG\n", ask(t, alive, "PING\n"))
	files := takeAllDescriptors(t)
	files[0].Close() // one for the client, and none for the server
	c := r.dial(t)
	time.Sleep(50 * time.Millisecond) // for the accept to fail, once or more often
	require.Equal(t, "PONG\n", ask(t, alive, "PING\n"))
	var limit syscall.Rlimit
	require.NoError(t, syscall.Getrlimit(syscall.RLIMIT_NOFILE, &limit))
	limit.Cur += 10
	require.NoError(t, syscall.Setrlimit(syscall.RLIMIT_NOFILE, &limit))
	answered := func(c net.Conn) bool {
		if _, err := io.WriteString(c, "PING\n"); err != nil {
			return false
		}
		answer, err := bufio.NewReader(c).ReadString('\n')
		return err == nil && answer == "PONG\n"
	}
	if !answered(c) {
		require.True(t, answered(r.dial(t)))
	}
	require.Equal(t, "PONG\n", ask(t, alive, "PING\n"))
}

// takeAllDescriptors opens files until there are no descriptors left, for as long as the
// test runs.
func takeAllDescriptors(t *testing.T) (files []*os.File) {
	var before syscall.Rlimit
	require.NoError(t, syscall.Getrlimit(syscall.RLIMIT_NOFILE, &before))
	lowered := before
	lowered.Cur = 200
	require.NoError(t, syscall.Setrlimit(syscall.RLIMIT_NOFILE, &lowered))
	t.Cleanup(func() {
		for _, f := range files {
			f.Close()
		}
		require.NoError(t, syscall.Setrlimit(syscall.RLIMIT_NOFILE, &before))
	})
	for {
		f, err := os.Open(os.DevNull)
		if err != nil {
			require.ErrorIs(t, err, syscall.EMFILE)
			return files
		}
		files = append(files, f)
	}
}
