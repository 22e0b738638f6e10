package main

import (
	"cmp"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/heartwheel-go/heartwheel/internal/logtest"
	"github.com/heartwheel-go/heartwheel/internal/proctest"
	"github.com/heartwheel-go/heartwheel/internal/testmain"
	"github.com/heartwheel-go/heartwheel/internal/testserver"
)

const eternal = proctest.Eternal

func TestMain(m *testing.M) {
	testmain.Parallel(6)
	proctest.Program(main)
	testserver.Main(m)
}

// process is the program as a process of its own.
type process struct {
	args    []string // besides -addr
	host    string   // to listen on; empty is 127.0.0.1
	env     []string
	program string // its file; empty is the test binary, with the race detector if the tests have it

	cmd  *exec.Cmd
	log  *logtest.Log
	wait func() error // for its end
}

// start starts the program and waits until it listens.
func start(t *testing.T, p process) *process {
	p.launch(t)
	p.logged(t, "msg=listening")
	return &p
}

// launch starts the program.
func (p *process) launch(t *testing.T) {
	file := p.program
	if file == "" {
		var err error
		file, err = os.Executable()
		require.NoError(t, err)
	}
	addr := net.JoinHostPort(cmp.Or(p.host, "127.0.0.1"), "0")
	p.cmd = exec.Command(file, append([]string{"-addr", addr}, p.args...)...)
	p.cmd.Env = append([]string{"PATH=" + os.Getenv("PATH"), "XDG_DATA_HOME=" + t.TempDir()}, p.env...)
	p.log, p.wait = proctest.Start(t, p.cmd)
}

// logged waits until the pattern is in the log, and returns its first group.
func (p *process) logged(t *testing.T, pattern string) (group string) {
	t.Helper()
	return p.log.Await(t, pattern)
}

// addr returns the program's address.
func (p *process) addr(t *testing.T) string {
	t.Helper()
	return p.logged(t, `msg=listening addr=([^ \n]+)`)
}

// ask makes a request, and returns the status and the body.
func (p *process) ask(t *testing.T, method, path, body string, header ...string) (status int, answer string) {
	t.Helper()
	r, err := http.NewRequest(method, "http://"+p.addr(t)+path, strings.NewReader(body))
	require.NoError(t, err)
	if body != "" {
		r.Header.Set("Content-Type", "application/json")
	}
	for i := 0; i+1 < len(header); i += 2 {
		r.Header.Set(header[i], header[i+1])
	}
	client := http.Client{Timeout: eternal, Transport: &http.Transport{DisableKeepAlives: true}}
	res, err := client.Do(r)
	require.NoError(t, err)
	defer res.Body.Close()
	b, err := io.ReadAll(res.Body)
	require.NoError(t, err)
	return res.StatusCode, string(b)
}

// set sets a new task.
func (p *process) set(t *testing.T, path, body string) {
	t.Helper()
	status, answer := p.ask(t, http.MethodPut, "/v1/topics/"+path, body)
	require.Equal(t, http.StatusCreated, status, answer)
}

// configFile writes a config file.
func configFile(t *testing.T, text string) (path string) {
	path = filepath.Join(t.TempDir(), "timeoutd.conf")
	require.NoError(t, os.WriteFile(path, []byte(text), 0o600))
	return path
}
