package exampletest

import (
	"context"
	"io"
	"os/exec"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// Program prepares a program from a package of Debian. A missing program fails the test. The
// program is killed when the test ends, or after a minute.
func Program(t *testing.T, debian, name string, args ...string) *exec.Cmd {
	path, err := exec.LookPath(name)
	require.NoError(t, err, "apt-get install %s", debian)
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	t.Cleanup(cancel)
	cmd := exec.CommandContext(ctx, path, args...)
	cmd.WaitDelay = time.Second // for children holding its output
	return cmd
}

// Output runs a program to its end, and returns its output, errors included.
func Output(t *testing.T, cmd *exec.Cmd) string {
	out, err := cmd.CombinedOutput()
	require.NoError(t, err, "%s: %s", cmd, out)
	return string(out)
}

// Running is a running program.
type Running struct {
	*exec.Cmd
	In  io.WriteCloser
	Out io.Reader // with its errors
}

// Run starts a program, and ends it with the test at the latest.
func Run(t *testing.T, cmd *exec.Cmd) *Running {
	in, err := cmd.StdinPipe()
	require.NoError(t, err)
	out, w := io.Pipe()
	cmd.Stdout, cmd.Stderr = w, w
	require.NoError(t, cmd.Start())
	r := &Running{Cmd: cmd, In: in, Out: out}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_ = cmd.Wait() // it may end as it likes
		_ = w.Close()
	}()
	t.Cleanup(func() {
		_ = in.Close()
		_ = cmd.Process.Kill()
		_ = out.Close()
		<-ended
	})
	return r
}
