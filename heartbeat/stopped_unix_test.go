//go:build unix

package heartbeat

import (
	"bufio"
	"fmt"
	"net"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// stoppedEnv holds the server's address for a client in another process than the test: that process
// can be stopped.
const stoppedEnv = "HEARTBEAT_TEST_STOPPED"

// The client is stopped while its beat has no answer. The server answers meanwhile.
func TestAClientThatWasStopped(t *testing.T) {
	if addr := os.Getenv(stoppedEnv); addr != "" {
		stoppedClient(t, addr)
		return
	}
	t.Parallel()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer ln.Close()
	client := exec.Command(os.Args[0], "-test.run", "^"+t.Name()+"$")
	client.Env = append(os.Environ(), stoppedEnv+"="+ln.Addr().String())
	out, err := client.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, client.Start())
	t.Cleanup(func() {
		_ = client.Process.Kill()
		_ = client.Wait()
	})

	conn, err := ln.Accept()
	require.NoError(t, err)
	defer conn.Close()
	require.NoError(t, conn.SetDeadline(time.Now().Add(eternal)))
	lines := bufio.NewReader(conn)
	beat := func() {
		line, err := lines.ReadString('\n')
		require.NoError(t, err)
		require.Equal(t, "PING\n", line)
	}
	beat()
	require.NoError(t, client.Process.Signal(syscall.SIGSTOP))
	time.Sleep(7 * time.Second) // more than AckTimeout and Interval
	_, err = fmt.Fprintln(conn, "PONG")
	require.NoError(t, err)
	require.NoError(t, client.Process.Signal(syscall.SIGCONT))

	goesOn := time.Now()
	beat()
	require.Less(t, time.Since(goesOn), 4*time.Second, "at once: it is long due")
	_, err = fmt.Fprintln(conn, "PONG")
	require.NoError(t, err)
	beat()
	_, err = fmt.Fprintln(conn, "END")
	require.NoError(t, err)
	said, err := bufio.NewReader(out).ReadString('\n')
	require.NoError(t, err)
	require.Regexp(t, `^stalls: [1-9]\d*, error: <nil>\n$`, said)
}

// stoppedClient says on its standard output how it went.
func stoppedClient(t *testing.T, addr string) {
	b := newBeater(t, Config{})
	conn, err := net.Dial("tcp", addr)
	require.NoError(t, err)
	c, err := b.Start(conn, Options{
		Timeout: 24 * time.Second, Interval: 4500 * ms, AckTimeout: 3 * time.Second,
		Message: []byte("PING\n"), Answer: AnswerAck,
	})
	require.NoError(t, err)
	defer c.Close()
	for lines := bufio.NewScanner(c); lines.Scan(); {
		switch {
		case strings.HasPrefix(lines.Text(), "PONG"):
			c.Ack()
		default:
			fmt.Printf("stalls: %d, error: %v\n", b.Stats().Wheel.Stalls, c.Err())
			return
		}
	}
	fmt.Println("error:", c.Err())
}
