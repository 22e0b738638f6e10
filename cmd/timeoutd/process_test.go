package main

import (
	"bytes"
	"errors"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/heartwheel-go/heartwheel/internal/leaktest"
)

const (
	eternal = 20 * time.Second // how long a test waits for what must come

	// isProgram makes the test binary the program, with the race detector where the
	// tests have it.
	isProgram = "HEARTWHEEL_TEST_RUNS_MAIN"
)

func TestMain(m *testing.M) {
	if os.Getenv(isProgram) != "" {
		main()
	}
	leaktest.Main(m)
}

// process is the program as a process of its own.
type process struct {
	args []string // besides -addr
	env  []string

	cmd   *exec.Cmd
	log   *buffer
	ended chan error
}

// start starts the program and waits until it listens.
func start(t *testing.T, p process) *process {
	p.launch(t)
	p.logged(t, "msg=listening")
	return &p
}

// launch starts the program.
func (p *process) launch(t *testing.T) {
	self, err := os.Executable()
	require.NoError(t, err)
	p.cmd = exec.Command(self, append([]string{"-addr", "127.0.0.1:0"}, p.args...)...)
	p.cmd.Env = append([]string{"PATH=" + os.Getenv("PATH"), "XDG_DATA_HOME=" + t.TempDir(), isProgram + "=1", "GORACE=atexit_sleep_ms=0"}, p.env...)
	p.log = new(buffer)
	p.cmd.Stderr = p.log
	require.NoError(t, p.cmd.Start())
	p.ended = make(chan error, 1)
	go func() { p.ended <- p.cmd.Wait(); close(p.ended) }()
	t.Cleanup(func() {
		_ = p.cmd.Process.Kill()
		<-p.ended
		if t.Failed() {
			t.Logf("%q logged:\n%s", p.args, p.log)
		}
	})
}

// wait waits for its end.
func (p *process) wait() error {
	select {
	case err := <-p.ended:
		return err
	case <-time.After(eternal):
		return errors.New("it does not end")
	}
}

// logged waits until something is in the log, and returns its first group.
func (p *process) logged(t *testing.T, pattern string) (group string) {
	t.Helper()
	re := regexp.MustCompile(pattern)
	require.Eventually(t, func() bool {
		m := re.FindStringSubmatch(p.log.String())
		if len(m) > 1 {
			group = m[1]
		}
		return m != nil
	}, eternal, time.Millisecond, "%s is not in the log", pattern)
	return group
}

// addr returns where it listens.
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

// set sets a task, which was not there.
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

// buffer is bytes.Buffer for several goroutines.
type buffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (b *buffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.Write(p)
}

func (b *buffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.String()
}
