package gnetkeepalive

import (
	"bufio"
	"bytes"
	"net"
	"os/exec"
	"syscall"
	"testing"

	"github.com/panjf2000/gnet/v2"
	"github.com/stretchr/testify/require"

	"github.com/heartwheel-go/heartwheel/keepalive"
)

// gnet ends its engine when an accept finds no descriptor. With keepalive.MaxConns there always is
// one, however many peers come.
func TestAnEngineWithMaxConnsOutlivesACrowd(t *testing.T) {
	const limit = 300
	var before syscall.Rlimit
	require.NoError(t, syscall.Getrlimit(syscall.RLIMIT_NOFILE, &before))
	require.GreaterOrEqual(t, before.Max, uint64(1000), "the crowd needs 1000 descriptors")
	lowered := before
	lowered.Cur = limit
	require.NoError(t, syscall.Setrlimit(syscall.RLIMIT_NOFILE, &lowered))
	defer func() { require.NoError(t, syscall.Setrlimit(syscall.RLIMIT_NOFILE, &before)) }()

	most, err := keepalive.MaxConns(3 + 4) // the event loop's, and those of this test
	require.NoError(t, err)
	require.Less(t, most, limit-64)
	k := newKeeper(t, keepalive.Config{Timeout: eternal, Room: keepalive.Room{MaxConns: most}})
	e := start(t, &app{}, k, gnet.WithNumEventLoop(1), gnet.WithReusePort(true))
	first := e.dial(t)
	say(t, first, "hello")

	_, port, err := net.SplitHostPort(first.RemoteAddr().String())
	require.NoError(t, err)
	crowd := exec.CommandContext(t.Context(), "bash", "-c",
		`ulimit -n 1000 && for i in {1..600}; do exec {fd}<>/dev/tcp/127.0.0.1/$0 || exit; done; echo all; read`, port)
	in, err := crowd.StdinPipe()
	require.NoError(t, err)
	out, err := crowd.StdoutPipe()
	require.NoError(t, err)
	var problems bytes.Buffer
	crowd.Stderr = &problems
	require.NoError(t, crowd.Start())
	defer crowd.Wait()
	defer in.Close()
	line, _ := bufio.NewReader(out).ReadString('\n')
	if line != "all\n" {
		in.Close()
		_ = crowd.Wait()
		require.Fail(t, "the crowd did not come", problems.String())
	}
	require.Eventually(t, func() bool { return k.Stats().RefusedFull+uint64(k.Len()) == 601 }, eternal, ms)
	require.Equal(t, most, k.Len())
	say(t, first, "still here")
	in.Close()
	_ = crowd.Wait()
	require.Eventually(t, func() bool { return k.Len() == 1 }, eternal, ms)
	say(t, e.dial(t), "room again")
}
