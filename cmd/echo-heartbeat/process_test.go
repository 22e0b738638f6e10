package main

import (
	"bytes"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/heartwheel-go/heartwheel/internal/logtest"
	"github.com/heartwheel-go/heartwheel/internal/proctest"
)

const eternal = proctest.Eternal

func TestMain(m *testing.M) { proctest.Main(m, main) }

// process is the program as a process of its own.
type process struct {
	args  []string // besides -addr
	env   []string
	files []*os.File // passed as systemd passes sockets,
	names string     // with these names
	limit int        // of descriptors, if not the usual one

	cmd  *exec.Cmd
	log  *logtest.Log
	wait func() error // for its end
}

// start starts the program and waits until it listens.
func start(t *testing.T, p process) *process {
	p.launch(t, append([]string{"-addr", "127.0.0.1:0"}, p.args...))
	p.logged(t, "server: listening")
	return &p
}

// launch starts the program.
func (p *process) launch(t *testing.T, args []string) {
	self, err := os.Executable()
	require.NoError(t, err)
	p.cmd = exec.Command(self, args...)
	if p.files != nil {
		p.cmd = exec.Command("sh", append([]string{"-c", `LISTEN_PID=$$ exec "$0" "$@"`, self}, args...)...)
		p.env = append(p.env, fmt.Sprintf("LISTEN_FDS=%d", len(p.files)), "LISTEN_FDNAMES="+p.names)
		p.cmd.ExtraFiles = p.files
	}
	if p.limit > 0 {
		p.cmd = exec.Command("sh", append([]string{"-c", fmt.Sprintf(`ulimit -n %d && exec "$0" "$@"`, p.limit), self}, args...)...)
	}
	p.cmd.Env = append(os.Environ(), p.env...)
	p.log, p.wait = proctest.Start(t, p.cmd)
}

// logged waits until the pattern is in the log, and returns its first group.
func (p *process) logged(t *testing.T, pattern string) (group string) {
	t.Helper()
	return p.log.Await(t, pattern)
}

// addr returns a listening address from the log.
func (p *process) addr(t *testing.T, what string) string {
	t.Helper()
	return p.logged(t, what+`: listening"(?:,"| )addr(?:=|":")([^" \n]+)`)
}

// ready waits until the server is ready. It logs that it listens a little before.
func (p *process) ready(t *testing.T) {
	t.Helper()
	require.Eventually(t, func() bool {
		status, _ := p.get(t, "/readyz")
		return status == http.StatusOK
	}, eternal, 10*time.Millisecond)
}

// get gets a page.
func (p *process) get(t *testing.T, path string) (status int, body string) {
	t.Helper()
	client := http.Client{Timeout: eternal, Transport: &http.Transport{DisableKeepAlives: true}}
	res, err := client.Get("http://" + p.addr(t, "admin") + path)
	require.NoError(t, err)
	defer res.Body.Close()
	b, err := io.ReadAll(res.Body)
	require.NoError(t, err)
	return res.StatusCode, string(b)
}

func (p *process) dial(t *testing.T) client {
	t.Helper()
	return dial(t, p.addr(t, "server"))
}

type client struct{ net.Conn }

func dial(t *testing.T, addr string) client {
	t.Helper()
	c, err := net.Dial("tcp", addr)
	require.NoError(t, err)
	t.Cleanup(func() { c.Close() })
	require.NoError(t, c.SetDeadline(time.Now().Add(eternal)))
	return client{c}
}

// ask sends a line and returns the next one.
func (c client) ask(t *testing.T, line string) string {
	t.Helper()
	_, err := io.WriteString(c, line)
	require.NoError(t, err)
	return c.line(t)
}

func (c client) line(t *testing.T) string {
	t.Helper()
	var line []byte
	for b := make([]byte, 1); !bytes.HasSuffix(line, []byte("\n")); line = append(line, b[0]) {
		_, err := io.ReadFull(c, b)
		require.NoError(t, err, "after %q", line)
	}
	return string(line)
}

// rest reads until the server closes.
func (c client) rest(t *testing.T) string {
	t.Helper()
	b, err := io.ReadAll(c)
	require.NoError(t, err)
	return string(b)
}

// configFile writes a config file.
func configFile(t *testing.T, text string) (path string) {
	path = filepath.Join(t.TempDir(), "echo-heartbeat.conf")
	require.NoError(t, os.WriteFile(path, []byte(text), 0o600))
	return path
}
