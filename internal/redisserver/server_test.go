package redisserver_test

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/heartwheel-go/heartwheel/internal/proctest"
	"github.com/heartwheel-go/heartwheel/internal/redisserver"
	"github.com/heartwheel-go/heartwheel/internal/testmain"
)

func TestMain(m *testing.M) { proctest.Main(m, program) }

// program starts a server, says its address, and does not end by itself.
func program() {
	s, err := redisserver.Start(context.Background())
	if err != nil {
		fmt.Println(err)
		os.Exit(1)
	}
	fmt.Println(s.Addr)
	select {}
}

func need(t *testing.T) {
	testmain.NeedProgram(t, "redis-server", "scripts/install-packages redis-server")
}

func start(t *testing.T) *redisserver.Server {
	need(t)
	s, err := redisserver.Start(t.Context())
	require.NoError(t, err)
	t.Cleanup(s.Stop)
	return s
}

func TestAServerAnswersUntilItIsStopped(t *testing.T) {
	t.Setenv("TMPDIR", t.TempDir())
	s := start(t)
	require.Equal(t, "redis://"+s.Addr, s.URL)
	require.Positive(t, s.PID())
	require.NoError(t, s.Err())
	c, err := net.Dial("tcp", s.Addr)
	require.NoError(t, err)
	defer c.Close()
	_, err = io.WriteString(c, "PING\r\n")
	require.NoError(t, err)
	answer, err := bufio.NewReader(c).ReadString('\n')
	require.NoError(t, err)
	require.Equal(t, "+PONG\r\n", answer)

	left, err := os.ReadDir(os.TempDir())
	require.NoError(t, err)
	require.Empty(t, left)

	s.Stop()
	s.Stop()
	<-s.Ended()
	_, err = net.Dial("tcp", s.Addr)
	require.Error(t, err)
}

func TestTheEndOfAServerIsSeenWithItsLastWords(t *testing.T) {
	s := start(t)
	p, err := os.FindProcess(s.PID())
	require.NoError(t, err)
	require.NoError(t, p.Kill())
	<-s.Ended()
	require.ErrorContains(t, s.Err(), "redis-server has ended: signal: killed: ")
	require.ErrorContains(t, s.Err(), "Ready to accept connections")
}

func TestAMachineWithoutAServer(t *testing.T) {
	t.Setenv("PATH", t.TempDir())
	_, err := redisserver.Start(t.Context())
	require.ErrorIs(t, err, redisserver.ErrMissing)
}

func TestAServerThatDoesNotStart(t *testing.T) {
	dir := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(dir, "redis-server"), []byte("#!/bin/sh\necho it hurts\nexit 3\n"), 0o755))
	t.Setenv("PATH", dir)
	_, err := redisserver.Start(t.Context())
	require.EqualError(t, err, "redis-server has ended: exit status 3: it hurts")
}
