//go:build interop

package main

import (
	"bufio"
	"encoding/json"
	"io"
	"io/fs"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/heartwheel-go/heartwheel/internal/logtest"
	"github.com/heartwheel-go/heartwheel/tools/internal/command"
)

const eternal = time.Minute // how long a test waits for a certain event

// container is a running container of runc's.
type container struct {
	id    string
	log   *logtest.Log
	state string // runc's directory
	ended <-chan error
}

// start builds the image of a program, has umoci unpack it, and has runc start it as the image says, but with
// args, and in the network of this machine.
func start(t *testing.T, name string, args ...string) *container {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("runc needs root here")
	}
	for _, tool := range []string{"umoci", "runc"} {
		_, err := exec.LookPath(tool)
		require.NoError(t, err, "scripts/install-clients installs it")
	}
	dir := t.TempDir()
	require.NoError(t, run([]string{"-repo", "../..", "-arch", runtime.GOARCH, "-out", dir, name}))
	bundle := filepath.Join(dir, "bundle")
	version, err := command.Output("../..", nil, "git", "describe", "--tags", "--always", "--abbrev=12")
	require.NoError(t, err)
	_, err = command.Output(dir, nil, "umoci", "unpack", "--image", name+":"+version, bundle)
	require.NoError(t, err)
	require.ElementsMatch(t, []string{name, "etc/passwd", "etc/ssl/certs/ca-certificates.crt"}, tree(t, filepath.Join(bundle, "rootfs")))
	configure(t, filepath.Join(bundle, "config.json"), name, args)
	return launch(t, bundle, "heartwheel-"+name+"-"+strconv.Itoa(os.Getpid()))
}

// tree lists the files below a directory.
func tree(t *testing.T, dir string) (names []string) {
	require.NoError(t, fs.WalkDir(os.DirFS(dir), ".", func(name string, entry fs.DirEntry, err error) error {
		if err == nil && !entry.IsDir() {
			names = append(names, name)
		}
		return err
	}))
	return names
}

// configure checks the config made by umoci from the image, and changes it: no terminal, no capability, nothing
// to write to, and no network of its own.
func configure(t *testing.T, file, name string, args []string) {
	text, err := os.ReadFile(file)
	require.NoError(t, err)
	var config struct {
		Process map[string]any   `json:"process"`
		Root    map[string]any   `json:"root"`
		Mounts  []map[string]any `json:"mounts"`
		Linux   struct {
			Namespaces []map[string]any `json:"namespaces"`
		} `json:"linux"`
		Version string `json:"ociVersion"`
	}
	require.NoError(t, json.Unmarshal(text, &config))
	require.Equal(t, map[string]any{"uid": 65532.0, "gid": 65532.0}, config.Process["user"])
	require.Equal(t, "/"+name, config.Process["args"].([]any)[0])
	config.Process["args"] = append([]string{"/" + name}, args...)
	config.Process["terminal"] = false
	config.Process["noNewPrivileges"] = true
	delete(config.Process, "capabilities")
	config.Root["readonly"] = true
	config.Linux.Namespaces = slices.DeleteFunc(config.Linux.Namespaces, func(n map[string]any) bool { return n["type"] == "network" })
	config.Mounts = slices.DeleteFunc(config.Mounts, func(m map[string]any) bool { return m["type"] == "cgroup" })
	text, err = json.Marshal(config)
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(file, text, 0o600))
}

func launch(t *testing.T, bundle, id string) *container {
	ended := make(chan error, 1)
	c := &container{id: id, log: new(logtest.Log), state: t.TempDir(), ended: ended}
	cmd := exec.Command("runc", "--root", c.state, "run", "--bundle", bundle, id)
	cmd.Stderr = c.log
	require.NoError(t, cmd.Start())
	gone := make(chan struct{})
	go func() { ended <- cmd.Wait(); close(gone) }()
	t.Cleanup(func() {
		_ = exec.Command("runc", "--root", c.state, "delete", "--force", id).Run()
		_ = cmd.Process.Kill()
		<-gone
		if t.Failed() {
			t.Logf("it logged:\n%s", c.log)
		}
	})
	return c
}

// terminate sends SIGTERM.
func (c *container) terminate(t *testing.T) {
	_, err := command.Output(".", nil, "runc", "--root", c.state, "kill", c.id, "TERM")
	require.NoError(t, err)
}

// exits waits for the exit code 0.
func (c *container) exits(t *testing.T) {
	select {
	case err := <-c.ended:
		require.NoError(t, err)
	case <-time.After(eternal):
		require.Fail(t, "it does not end")
	}
}

// status returns lines of the process's status in /proc.
func (c *container) status(t *testing.T) string {
	text, err := command.Output(".", nil, "runc", "--root", c.state, "state", c.id)
	require.NoError(t, err)
	var state struct{ Pid int }
	require.NoError(t, json.Unmarshal([]byte(text), &state))
	status, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(state.Pid), "status"))
	require.NoError(t, err)
	return string(status)
}

func TestRuncRunsEchoHeartbeat(t *testing.T) {
	t.Parallel()
	c := start(t, "echo-heartbeat", "-addr", "127.0.0.1:0", "-admin", "127.0.0.1:0", "-timeout", "4s", "-drain-delay", "2s")
	addr := c.log.Await(t, `server: listening" addr=([^ \n]+)`)
	ready := "http://" + c.log.Await(t, `admin: listening" addr=([^ \n]+)`) + "/readyz"
	require.Regexp(t, `\nUid:\s65532\s65532\s65532\s65532\nGid:\s65532\s65532\s65532\s65532\n`, c.status(t))
	require.Regexp(t, `\nCapEff:\s0{16}\n`, c.status(t))

	silent := dial(t, addr)
	require.Equal(t, "PONG\n", silent.ask("PING\n"))
	require.Equal(t, "BYE idle timeout 4s\n", silent.ask(""))
	require.Equal(t, http.StatusOK, get(t, ready))

	alive := dial(t, addr)
	require.Equal(t, "PONG\n", alive.ask("PING\n"))
	c.terminate(t)
	require.Equal(t, "PONG\n", alive.ask("PING\n"), "it goes on for the drain delay")
	c.log.Await(t, "shutting down soon")
	require.Equal(t, http.StatusServiceUnavailable, get(t, ready))
	require.Equal(t, "BYE server shutting down\n", alive.ask(""))
	c.exits(t)
}

func TestRuncRunsTimeoutd(t *testing.T) {
	t.Parallel()
	c := start(t, "timeoutd", "-addr", "127.0.0.1:0", "-memory", "-grace", "1s")
	url := "http://" + c.log.Await(t, `msg=listening addr=([^ \n]+)`)
	require.Equal(t, http.StatusOK, get(t, url+"/readyz"))
	r, err := http.NewRequest(http.MethodPut, url+"/v1/topics/orders/tasks/4711", strings.NewReader(`{"after":"1h"}`))
	require.NoError(t, err)
	r.Header.Set("Content-Type", "application/json")
	res, err := http.DefaultClient.Do(r)
	require.NoError(t, err)
	res.Body.Close()
	require.Equal(t, http.StatusCreated, res.StatusCode)
	require.Equal(t, http.StatusOK, get(t, url+"/v1/topics/orders/tasks/4711"))
	c.terminate(t)
	c.exits(t)
}

func get(t *testing.T, url string) (status int) {
	res, err := (&http.Client{Timeout: eternal}).Get(url)
	require.NoError(t, err)
	res.Body.Close()
	return res.StatusCode
}

type client struct {
	t *testing.T
	net.Conn
	in *bufio.Reader
}

func dial(t *testing.T, addr string) client {
	c, err := net.Dial("tcp", addr)
	require.NoError(t, err)
	t.Cleanup(func() { c.Close() })
	require.NoError(t, c.SetDeadline(time.Now().Add(eternal)))
	return client{t, c, bufio.NewReader(c)}
}

// ask sends a line, if there is one, and returns the next line.
func (c client) ask(line string) string {
	_, err := io.WriteString(c, line)
	require.NoError(c.t, err)
	answer, err := c.in.ReadString('\n')
	require.NoError(c.t, err)
	return answer
}
