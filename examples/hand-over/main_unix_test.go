//go:build unix

package main

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/coder/websocket"
	"github.com/stretchr/testify/require"

	"github.com/heartwheel-go/heartwheel/internal/logtest"
	"github.com/heartwheel-go/heartwheel/internal/proctest"
)

func TestMain(m *testing.M) { proctest.Main(m, main) }

// web is the program, from its first process to its last.
type web struct {
	file, pidFile string
	addr          string
	self          string // the file that it begins with
	log           *logtest.Log
	ended         chan struct{} // closed when all its processes have ended
	first         *exec.Cmd
}

// start starts the program by a name that can be given to another file.
func start(t *testing.T, args ...string) *web {
	self, err := os.Executable()
	require.NoError(t, err)
	dir := t.TempDir()
	w := &web{
		file: filepath.Join(dir, "web"), pidFile: filepath.Join(dir, "web.pid"), self: self,
		log: new(logtest.Log), ended: make(chan struct{}),
	}
	require.NoError(t, os.Symlink(self, w.file))
	w.first = exec.Command(w.file, append([]string{"-addr", "127.0.0.1:0", "-pid", w.pidFile}, args...)...)
	w.first.Env = append(os.Environ(), proctest.AsProgram, proctest.AtOnce)
	w.first.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	read, write, err := os.Pipe() // it ends with the last process
	require.NoError(t, err)
	w.first.Stderr = write
	require.NoError(t, w.first.Start())
	require.NoError(t, write.Close())
	go func() {
		defer close(w.ended)
		_, _ = io.Copy(w.log, read)
	}()
	t.Cleanup(func() {
		select {
		case <-w.ended:
		default:
			_ = syscall.Kill(-w.first.Process.Pid, syscall.SIGKILL) // the whole group
			<-w.ended
		}
		_ = read.Close()
		_ = w.first.Wait()
		w.log.Judge(t, w.first.Args)
	})
	w.addr = w.log.Await(t, `listening addr=(\S+)`)
	w.log.Await(t, `INFO serving`)
	return w
}

// pid is the number of the process that serves.
func (w *web) pid(t *testing.T) int {
	text, err := os.ReadFile(w.pidFile)
	require.NoError(t, err)
	pid, err := strconv.Atoi(string(text))
	require.NoError(t, err)
	return pid
}

// hup asks for an upgrade. It returns nil if a new process serves then, and else why the program says that it does not.
func (w *web) hup(t *testing.T) error {
	serving, refused := len(w.log.Lines("INFO serving")), len(w.log.Lines("not replaced"))
	require.NoError(t, syscall.Kill(w.pid(t), syscall.SIGHUP))
	require.Eventually(t, func() bool {
		return len(w.log.Lines("INFO serving")) > serving || len(w.log.Lines("not replaced")) > refused
	}, proctest.Eternal, time.Millisecond, "neither replaced nor not")
	if lines := w.log.Lines("not replaced"); len(lines) > refused {
		return errors.New(lines[refused])
	}
	return nil
}

// upgrade replaces the process that serves, when the one before has ended.
func (w *web) upgrade(t *testing.T) (old, now int) {
	old = w.pid(t)
	for err := w.hup(t); err != nil; err = w.hup(t) {
		require.ErrorContains(t, err, "parent hasn't exited")
		time.Sleep(10 * time.Millisecond)
	}
	now = w.pid(t)
	require.NotEqual(t, old, now)
	return old, now
}

// stop ends the program, and requires all its processes to end.
func (w *web) stop(t *testing.T) {
	require.NoError(t, syscall.Kill(w.pid(t), syscall.SIGTERM))
	select {
	case <-w.ended:
	case <-time.After(proctest.Eternal):
		require.FailNow(t, "a process stays")
	}
}

func (w *web) get(t *testing.T, path string) string {
	client := http.Client{Timeout: proctest.Eternal, Transport: &http.Transport{DisableKeepAlives: true}}
	res, err := client.Get("http://" + w.addr + path)
	require.NoError(t, err)
	defer res.Body.Close()
	body, err := io.ReadAll(res.Body)
	require.NoError(t, err)
	return string(body)
}

// replace gives the program's name to another file.
func (w *web) replace(t *testing.T, script string) {
	require.NoError(t, os.RemoveAll(w.file))
	switch script {
	case "none":
	case "good":
		require.NoError(t, os.Symlink(w.self, w.file))
	default:
		require.NoError(t, os.WriteFile(w.file, []byte("#!/bin/sh\n"+script+"\n"), 0o700)) //nolint:gosec // it must run
	}
}

func TestANewProcessThatDoesNotServeLeavesTheOldOneServing(t *testing.T) {
	t.Parallel()
	w := start(t, "-start", "2s")
	c, _, err := websocket.Dial(t.Context(), "ws://"+w.addr+"/ws", nil)
	require.NoError(t, err)
	defer c.CloseNow()
	_, _, err = c.Read(t.Context())
	require.NoError(t, err)
	pid := w.pid(t)
	for _, bad := range []struct{ script, why string }{
		{"none", "can't start"},
		{"exit 3", "exit status 3"},
		{"exec sleep 60", "timed out"},
	} {
		w.replace(t, bad.script)
		err := w.hup(t)
		for strings.Contains(fmt.Sprint(err), "text file busy") { // a process that another test starts has it open for a moment
			err = w.hup(t)
		}
		require.ErrorContains(t, err, bad.why)
		require.Equal(t, fmt.Sprintln("hello from", pid), w.get(t, "/"))
		require.NoError(t, c.Write(t.Context(), websocket.MessageText, []byte("still there")))
		_, answer, err := c.Read(t.Context())
		require.NoError(t, err)
		require.Equal(t, "still there", string(answer))
	}
	w.replace(t, "good")
	for err := w.hup(t); err != nil; err = w.hup(t) { // a busy machine starts it later
		require.ErrorContains(t, err, "timed out")
	}
	_, _, err = c.Read(t.Context())
	require.Equal(t, websocket.StatusGoingAway, websocket.CloseStatus(err), "%v", err)
	w.stop(t)
}

func TestARequestThatNeverEndsIsCutAtTheEndOfTheDrain(t *testing.T) {
	t.Parallel()
	w := start(t, "-drain", "200ms")
	cut := make(chan error, 1)
	go func() {
		_, err := http.Get("http://" + w.addr + "/?for=1h") //nolint:bodyclose // there is none
		cut <- err
	}()
	w.log.Await(t, "INFO asked")
	w.upgrade(t)
	require.Error(t, <-cut)
	w.stop(t)
}
