package main

import (
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/heartwheel-go/heartwheel/cmd/timeoutd/internal/cli"
	"github.com/heartwheel-go/heartwheel/internal/proctest"
)

// A terminal that is closed sends several signals, and the end of a session has others beside them.
func TestHangupsAreNoSecondSignal(t *testing.T) {
	t.Parallel()
	hangups := strings.Repeat("H", 50)
	for name, burst := range map[string]string{"only": hangups, "after": "T" + hangups, "before": hangups + "T", "before and after": hangups + "I" + hangups} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for range 5 {
				p := start(t, process{args: []string{"-memory", "-drain-delay", "200ms"}})
				for _, s := range burst {
					_ = p.cmd.Process.Signal(map[rune]os.Signal{'H': syscall.SIGHUP, 'T': syscall.SIGTERM, 'I': os.Interrupt}[s]) // it may have ended
				}
				require.NoError(t, p.wait())
				p.logged(t, "msg=stopped")
			}
		})
	}
}

// What reads the log ends by the same Ctrl-C, and sooner.
func TestTheServerOutlivesTheReaderOfItsLog(t *testing.T) {
	r, w, err := os.Pipe()
	require.NoError(t, err)
	path, told := notified(t)
	p := command(t, "-addr", "127.0.0.1:0", "-memory")
	p.Env = append(p.Env, "NOTIFY_SOCKET="+path)
	p.Stderr = w
	require.NoError(t, p.Start())
	require.NoError(t, w.Close())
	require.Contains(t, told(), "READY=1")
	require.NoError(t, r.Close())
	require.NoError(t, p.Process.Signal(os.Interrupt))
	require.NoError(t, p.Wait())
	require.Contains(t, told(), "STOPPING=1")
}

// command is the program with a stderr of its own.
func command(t *testing.T, args ...string) *exec.Cmd {
	file, err := os.Executable()
	require.NoError(t, err)
	cmd := exec.CommandContext(t.Context(), file, args...)
	cmd.Env = []string{"PATH=" + os.Getenv("PATH"), proctest.AsProgram, proctest.AtOnce}
	return cmd
}

// worker starts the command work with a program for one task, and returns when that has written the file.
func (p *process) worker(t *testing.T, file, program string) (work *exec.Cmd, output *os.File) {
	p.putTopic(t, "jobs", `{"pull":true,"retain":"1h"}`)
	p.set(t, "jobs/tasks/1", `{}`)
	r, w, err := os.Pipe()
	require.NoError(t, err)
	t.Cleanup(func() { r.Close() })
	work = command(t, "work", "jobs", "-url", "http://"+p.addr(t), "-exec", program)
	work.Stdout = w
	require.NoError(t, work.Start())
	require.NoError(t, w.Close())
	require.Eventually(t, func() bool { _, err := os.Stat(file); return err == nil }, eternal, 10*time.Millisecond)
	return work, r
}

// The reader of what work says ends by the same Ctrl-C, and sooner.
func TestWorkTellsOfItsTaskThoughNobodyReads(t *testing.T) {
	t.Parallel()
	p := start(t, process{args: []string{"-memory"}})
	begun := filepath.Join(t.TempDir(), "begun")
	work, output := p.worker(t, begun, `trap 'exit 0' TERM; touch `+begun+`; while :; do sleep 0.05; done`)
	require.NoError(t, output.Close())
	require.NoError(t, work.Process.Signal(os.Interrupt))
	require.NoError(t, work.Wait())
	_, task := p.ask(t, "GET", "/v1/topics/jobs/tasks/1", "")
	require.Contains(t, task, `"state":"done"`)
}

// No terminal's signal reaches the program of a task.
func TestTheSecondSignalEndsTheProgramsOfWork(t *testing.T) {
	t.Parallel()
	p := start(t, process{args: []string{"-memory"}})
	begun := filepath.Join(t.TempDir(), "begun")
	work, output := p.worker(t, begun, `trap '' TERM; touch `+begun+`; while :; do sleep 0.05; done`)
	require.NoError(t, output.SetReadDeadline(time.Now().Add(eternal)))
	require.NoError(t, work.Process.Signal(os.Interrupt))
	require.NoError(t, work.Process.Signal(syscall.SIGTERM))
	var exit *exec.ExitError
	require.ErrorAs(t, work.Wait(), &exit)
	require.Equal(t, cli.ExitFailure, exit.ExitCode())
	_, err := io.Copy(io.Discard, output)
	require.NoError(t, err, "nobody has it any more")
}

// As every program whose reader has gone.
func TestWatchEndsWithItsReader(t *testing.T) {
	t.Parallel()
	p := start(t, process{args: []string{"-memory"}})
	r, w, err := os.Pipe()
	require.NoError(t, err)
	watch := command(t, "watch", "-every", "100ms", "-url", "http://"+p.addr(t))
	watch.Stdout = w
	require.NoError(t, watch.Start())
	require.NoError(t, w.Close())
	require.NoError(t, r.Close())
	require.ErrorContains(t, watch.Wait(), syscall.SIGPIPE.String())
}
