//go:build interop && unix

package main

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/heartwheel-go/heartwheel/internal/logtest"
	"github.com/heartwheel-go/heartwheel/internal/proctest"
)

// A stranger copies a session: with curl, in Go and with the commands. Each has the task called once.
func TestOneTasksLifeInThreeWays(t *testing.T) {
	t.Parallel()
	called := make(chan string, 10)
	target := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		called <- r.URL.Path
	}))
	t.Cleanup(target.Close)
	p := start(t, process{args: []string{"-memory", "-callback-allow", "127.0.0.0/8"}})
	here := []string{"127.0.0.1:8077", p.addr(t), "127.0.0.1:9000", target.Listener.Addr().String()}
	blocks := blocksOf(t, "docs/three-ways.md", here...)
	require.Len(t, blocks, 2)
	program := filepath.Join(t.TempDir(), "main.go")
	text, err := os.ReadFile("../../timeout/timeoutclient/example_test.go")
	require.NoError(t, err)
	asProgram := append(here, "package timeoutclient_test", "package main", "func Example_life(", "func main(")
	require.NoError(t, os.WriteFile(program, []byte(strings.NewReplacer(asProgram...).Replace(string(text))), 0o600))
	var said []string
	for _, way := range []*exec.Cmd{p.bash(t, blocks[0][2]), exec.CommandContext(t.Context(), "go", "run", program), p.bash(t, blocks[1][2])} {
		out, err := way.CombinedOutput()
		require.NoError(t, err, "%v%s", way, out)
		require.Equal(t, "/unpaid", <-called)
		said = append(said, string(out))
	}
	require.Regexp(t, `(?s)"was":"none","changed":true.*"was":"pending","changed":true.*"state":"done".*"attempt":1.*"as":"done"`, said[0])
	require.Equal(t, "go/4711 is done after attempt 1\n", said[1])
	require.Regexp(t, `(?s)shell/4711 is set for .*shell/4711 is due at .*shell/4711 +done.* 1 +done `, said[2])
	require.Empty(t, called, "each task is called once")
}

// blocksOf returns the blocks of code of a page, each with its language and its text.
func blocksOf(t *testing.T, page string, replace ...string) [][]string {
	file, err := os.ReadFile(page)
	require.NoError(t, err)
	text := strings.NewReplacer(replace...).Replace(string(file))
	return regexp.MustCompile("(?s)```(\\w+)\n(.*?)```").FindAllStringSubmatch(text, -1)
}

// bash returns a script that has the command timeoutd, and this process as its server.
func (p *process) bash(t *testing.T, script string) *exec.Cmd {
	self, err := os.Executable()
	require.NoError(t, err)
	bin := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(bin, "timeoutd"), []byte(fmt.Sprintf("#!/bin/sh\n%s %s exec '%s' \"$@\"\n", proctest.AsProgram, proctest.AtOnce, self)), 0o700))
	cmd := exec.CommandContext(t.Context(), "bash", "-euo", "pipefail", "-c", script)
	cmd.Env = append(os.Environ(), "PATH="+bin+":"+os.Getenv("PATH"), "TIMEOUTD_URL=http://"+p.addr(t), "TIMEOUTD_TOKEN=")
	return cmd
}

// A worker in curl, and one by the command, which runs until it is interrupted.
func TestTheWorkersOnTheirPage(t *testing.T) {
	t.Parallel()
	p := start(t, process{args: []string{"-memory"}})
	blocks := blocksOf(t, "docs/workers.md", "127.0.0.1:8077", p.addr(t), "'jq .image'", "cat")
	require.Len(t, blocks, 2)
	out, err := p.bash(t, blocks[0][2]).CombinedOutput()
	require.NoError(t, err, "%s", out)
	require.Regexp(t, `(?s)"pull":true.*"was":"none","changed":true.*"held":true,"lease":"5m0s".*"settled":true`, string(out))

	cmd := p.bash(t, blocks[1][2])
	var text logtest.Log
	cmd.Stdout, cmd.Stderr = &text, &text
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	require.NoError(t, cmd.Start())
	text.Await(t, `(thumbnails/4712 done, attempt 1)`)
	require.NoError(t, syscall.Kill(-cmd.Process.Pid, syscall.SIGINT))
	_ = cmd.Wait() // bash says how the command ended
	require.Contains(t, text.String(), `{"image":4712}`)
}
