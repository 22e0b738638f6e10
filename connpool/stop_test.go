//go:build unix

package connpool

import (
	"bufio"
	"fmt"
	"os"
	"os/exec"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// stopEnv is set for the process that is stopped.
const stopEnv = "HEARTWHEEL_CONNPOOL_STOP"

// A process is really stopped for longer than MaxIdleTime: the wheel's time stands still,
// the server's does not.
func TestTheTimeInWhichTheProcessWasStoppedCounts(t *testing.T) {
	if os.Getenv(stopEnv) != "" {
		beStopped(t)
		return
	}
	cmd := exec.Command(os.Args[0], "-test.run=^"+t.Name()+"$", "-test.v")
	cmd.Env = append(os.Environ(), stopEnv+"=1")
	in, err := cmd.StdinPipe()
	require.NoError(t, err)
	out, err := cmd.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, cmd.Start())
	lines := bufio.NewScanner(out)
	next := func() string {
		for lines.Scan() {
			var word string
			if n, _ := fmt.Sscanf(lines.Text(), "child: %s", &word); n == 1 {
				return word
			}
		}
		return "nothing"
	}
	require.Equal(t, "idle", next())
	require.NoError(t, cmd.Process.Signal(syscall.SIGSTOP))
	time.Sleep(2500 * ms)
	require.NoError(t, cmd.Process.Signal(syscall.SIGCONT))
	_, err = fmt.Fprintln(in, "go on")
	require.NoError(t, err)
	require.Equal(t, "dialed", next())
	require.Equal(t, "nothing", next())
	require.NoError(t, cmd.Wait())
}

func beStopped(t *testing.T) {
	p, _ := newTestPool(t, Config[*fake]{MaxIdleTime: 2 * time.Second})
	getMany(t, p, 1)
	fmt.Println("child: idle")
	_, _ = bufio.NewReader(os.Stdin).ReadString('\n')
	// The wheel tells on a goroutine of its own, and a busy machine may have had a shorter stall before.
	require.Eventually(t, func() bool { return p.group.lost.Load() > int64(2*time.Second) }, eternal, ms)
	if get(t, p).Reused() {
		fmt.Println("child: reused")
	} else {
		fmt.Println("child: dialed")
	}
}
