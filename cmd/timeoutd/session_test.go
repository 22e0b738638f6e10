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
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/heartwheel-go/heartwheel/internal/proctest"
)

// A stranger copies the README's session: with curl, in Go and with the commands. Each has the task
// called once.
func TestOneTasksLifeInTheReadme(t *testing.T) {
	t.Parallel()
	called := make(chan string, 10)
	target := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		called <- r.URL.Path
	}))
	t.Cleanup(target.Close)
	p := start(t, process{args: []string{"-memory", "-callback-allow", "127.0.0.0/8"}})
	text, err := os.ReadFile("README.md")
	require.NoError(t, err)
	_, section, found := strings.Cut(string(text), "\n## One task's life, three ways\n")
	require.True(t, found)
	section, _, _ = strings.Cut(section, "\n## ")
	section = strings.NewReplacer("127.0.0.1:8077", p.addr(t), "127.0.0.1:9000", target.Listener.Addr().String()).Replace(section)
	blocks := regexp.MustCompile("(?s)```(\\w+)\n(.*?)```").FindAllStringSubmatch(section, -1)
	require.Len(t, blocks, 3)

	self, err := os.Executable()
	require.NoError(t, err)
	bin := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(bin, "timeoutd"), []byte(fmt.Sprintf("#!/bin/sh\n%s GORACE=atexit_sleep_ms=0 exec '%s' \"$@\"\n", proctest.AsProgram, self)), 0o700))
	program := filepath.Join(t.TempDir(), "main.go")
	var said []string
	for _, block := range blocks {
		cmd := exec.CommandContext(t.Context(), "bash", "-euo", "pipefail", "-c", block[2])
		if block[1] == "go" {
			require.NoError(t, os.WriteFile(program, []byte(block[2]), 0o600))
			cmd = exec.CommandContext(t.Context(), "go", "run", program)
		}
		cmd.Env = append(os.Environ(), "PATH="+bin+":"+os.Getenv("PATH"), "TIMEOUTD_URL=http://"+p.addr(t), "TIMEOUTD_TOKEN=")
		out, err := cmd.CombinedOutput()
		require.NoError(t, err, "%s%s", block[2], out)
		require.Equal(t, "/unpaid", <-called)
		said = append(said, string(out))
	}
	require.Regexp(t, `(?s)"was":"none","changed":true.*"was":"pending","changed":true.*"state":"done".*"attempt":1.*"as":"done"`, said[0])
	require.Equal(t, "go/4711 is done after attempt 1\n", said[1])
	require.Regexp(t, `(?s)shell/4711 is set for .*shell/4711 is due at .*shell/4711 +done.* 1 +done `, said[2])
	require.Empty(t, called, "each task is called once")
}
