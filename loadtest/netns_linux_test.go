package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/heartwheel-go/heartwheel/internal/proctest"
)

// buildPrograms builds this program and the server.
func buildPrograms(t *testing.T) (loadtest, server string) {
	dir := t.TempDir()
	out, err := exec.Command("go", "build", "-o", dir, module+"/loadtest", module+"/cmd/echo-heartbeat").CombinedOutput()
	require.NoError(t, err, "%s", out)
	return filepath.Join(dir, "loadtest"), filepath.Join(dir, "echo-heartbeat")
}

var small = []string{
	"-conns", "50", "-interval", "200ms", "-timeout", "1s", "-tick", "20ms", "-duration", "2s",
}

func TestNetns(t *testing.T) {
	proctest.OwnNetwork(t)
	before, tableErr := setting(socketTable)
	loadtest, server := buildPrograms(t)
	out, err := exec.Command(loadtest, append(small, "-netns", "-server", server)...).CombinedOutput()
	for attempt := 1; attempt < attempts && isSlow(string(out)); attempt++ {
		t.Logf("attempt %d:\n%s", attempt, out) // a busy machine is at fault itself
		out, err = exec.Command(loadtest, append(small, "-netns", "-server", server)...).CombinedOutput()
	}
	require.NoError(t, err, "%s", out)
	require.Contains(t, string(out), "verdict pass")
	after, err := setting(socketTable)
	if tableErr == nil {
		require.NoError(t, err)
		require.Equal(t, before, after)
	}
	err = exec.Command(loadtest, append(small, "-netns", "-server", "/no/such/file")...).Run()
	var failed *exec.ExitError
	require.ErrorAs(t, err, &failed)
	require.Equal(t, exitFailure, failed.ExitCode())
}

// However this program ends, its servers do too.
func TestServersEndWithTheProgram(t *testing.T) {
	loadtest, server := buildPrograms(t)
	cmd := exec.Command(loadtest, append(small, "-procs", "2", "-server", server, "-duration", "2m")...)
	require.NoError(t, cmd.Start())
	var children []int
	require.Eventually(t, func() bool {
		children = childrenOf(cmd.Process.Pid)
		return len(children) == 2
	}, time.Minute, 5*time.Millisecond)
	require.NoError(t, cmd.Process.Kill())
	_ = cmd.Wait()
	for _, pid := range children {
		require.Eventually(t, func() bool { return hasEnded(pid) }, time.Minute, 5*time.Millisecond)
	}
}

func childrenOf(pid int) (children []int) {
	files, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/children", pid))
	for _, file := range files {
		b, _ := os.ReadFile(file)
		for _, field := range strings.Fields(string(b)) {
			child, _ := strconv.Atoi(field)
			children = append(children, child)
		}
	}
	return children
}

// hasEnded reports whether a process is not there, or waits for somebody to take
// note of its end.
func hasEnded(pid int) bool {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	return err != nil || strings.Contains(string(b), ") Z ")
}
