package main

import (
	"bufio"
	"fmt"
	"io"
	"log/slog"
	"math"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/heartwheel-go/heartwheel/cmd/timeoutd/internal/cli"
	"github.com/heartwheel-go/heartwheel/internal/sdnotify"
)

// SIGTERM: not ready first, and then it ends with nothing lost.
func TestGracefulEnd(t *testing.T) {
	t.Parallel()
	p := start(t, process{args: []string{"-memory", "-drain-delay", "5s", "-grace", "1s"}})
	status, body := p.ask(t, http.MethodGet, "/readyz", "")
	require.Equal(t, http.StatusOK, status, body)
	p.set(t, "t/tasks/1", `{"after":"1h"}`)
	require.NoError(t, p.cmd.Process.Signal(syscall.SIGTERM))
	p.logged(t, `msg="going down"`)
	status, body = p.ask(t, http.MethodGet, "/readyz", "")
	require.Equal(t, http.StatusServiceUnavailable, status)
	require.Contains(t, body, "draining")
	status, _ = p.ask(t, http.MethodGet, "/v1/topics/t/tasks/1", "")
	require.Equal(t, http.StatusOK, status, "it serves")
	require.NoError(t, p.wait())
	p.logged(t, "msg=stopped")
	_, err := net.Dial("tcp", p.addr(t))
	require.Error(t, err)
}

// A running call has its time to end, and is not made again.
func TestCallsEndInPeace(t *testing.T) {
	began, calls := make(chan struct{}, 10), new(atomic.Int64)
	to := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		began <- struct{}{}
		time.Sleep(700 * time.Millisecond)
		if r.Context().Err() == nil {
			calls.Add(1)
		}
	}))
	defer to.Close()
	with := process{args: []string{"-sqlite", filepath.Join(t.TempDir(), "tasks.db"), "-callback-allow", "127.0.0.0/8"}}
	p := start(t, with)
	p.set(t, "t/tasks/1", `{"callback":{"kind":"http","target":"`+to.URL+`"}}`)
	<-began
	require.NoError(t, p.cmd.Process.Signal(syscall.SIGTERM))
	require.NoError(t, p.wait())
	require.Equal(t, int64(1), calls.Load())
	p = start(t, with)
	status, body := p.ask(t, http.MethodGet, "/v1/topics/t/tasks/1", "")
	require.Equal(t, http.StatusNotFound, status, body)
	require.Empty(t, began)
}

func TestSecondSignalEndsAtOnce(t *testing.T) {
	p := start(t, process{args: []string{"-memory", "-drain-delay", "1h"}})
	require.NoError(t, p.cmd.Process.Signal(syscall.SIGTERM))
	p.logged(t, "going down")
	require.NoError(t, p.cmd.Process.Signal(syscall.SIGTERM))
	var exit *exec.ExitError
	require.ErrorAs(t, p.wait(), &exit)
}

// notified returns the path of a socket in place of systemd's, and a function for its next message.
func notified(t *testing.T) (path string, told func() string) {
	path = filepath.Join(t.TempDir(), "notify")
	conn, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: path, Net: "unixgram"})
	require.NoError(t, err)
	t.Cleanup(func() { conn.Close() })
	require.NoError(t, conn.SetDeadline(time.Now().Add(eternal)))
	return path, func() string {
		b := make([]byte, 1<<10)
		n, err := conn.Read(b)
		require.NoError(t, err)
		return string(b[:n])
	}
}

func TestSystemdIsToldOfTheLongestEnd(t *testing.T) {
	path, told := notified(t)
	t.Setenv("NOTIFY_SOCKET", path)
	sdnotify.Notifier{Log: slog.New(slog.DiscardHandler)}.Tell(stopping(math.MaxInt64, math.MaxInt64))
	require.Equal(t, "STOPPING=1\nSTATUS=going down\nEXTEND_TIMEOUT_USEC=18446744088709550", told())
}

func TestSystemdIsTold(t *testing.T) {
	path, told := notified(t)
	p := start(t, process{args: []string{"-memory"}, env: []string{"NOTIFY_SOCKET=" + path}})
	require.Equal(t, "READY=1\nSTATUS=listening on "+p.addr(t), told())
	require.NoError(t, p.cmd.Process.Signal(syscall.SIGTERM))
	require.Equal(t, "STOPPING=1\nSTATUS=going down\nEXTEND_TIMEOUT_USEC=25000000", told())
	require.NoError(t, p.wait())
}

func TestTokensFromAFile(t *testing.T) {
	path := configFile(t, "memory\nread-token reader-0123456789 other-0123456789\nadmin-token master-0123456789\n")
	p := start(t, process{args: []string{"-config", path}})
	for token, want := range map[string]int{"": 401, "reader-0123456789": 200, "other-0123456789": 200, "master-0123456789": 200, "memory-0123456789": 401} {
		status, _ := p.ask(t, http.MethodGet, "/v1/topics", "", "Authorization", "Bearer "+token)
		require.Equal(t, want, status, token)
	}
	status, _ := p.ask(t, http.MethodPut, "/v1/topics/t/tasks/1", "{}", "Authorization", "Bearer reader-0123456789")
	require.Equal(t, http.StatusForbidden, status)
	status, page := p.ask(t, http.MethodGet, "/", "")
	require.Equal(t, http.StatusOK, status)
	require.Contains(t, page, "<title>Timeouts")
	require.NotContains(t, p.log.String(), "0123456789")
}

// The center gets the whole engine, with its log of executions and its Waker.
func TestTheEngineIsAllThatItIs(t *testing.T) {
	p := start(t, process{args: []string{"-sqlite", filepath.Join(t.TempDir(), "tasks.db")}})
	p.set(t, "t/tasks/1", `{"after":"1h"}`)
	status, body := p.ask(t, http.MethodGet, "/v1/topics/t/tasks/1/executions", "")
	require.Equal(t, http.StatusOK, status, body)
	require.JSONEq(t, `{"executions":[]}`, body)
}

// All output is in the log, in its format. By itself go-redis has a logger of its own.
func TestNoLibraryWritesPastTheLog(t *testing.T) {
	p := process{args: []string{"-memory", "-log-format", "json"}, env: []string{"TIMEOUTD_STREAMS=redis://127.0.0.1:1"}} // no Redis is there
	p.launch(t)
	p.logged(t, `"msg":"listening"`)
	at := p.logged(t, `"addr":"([^"]+)"`)
	res, err := http.Post("http://"+at+"/v1/tasks/set", "application/json", strings.NewReader(`{"tasks":[{"topic":"t","id":"1","callback":{"kind":"redis","target":"events:x"}}]}`))
	require.NoError(t, err)
	res.Body.Close()
	require.Equal(t, http.StatusOK, res.StatusCode)
	p.logged(t, `"msg":"redis: `)
	require.NoError(t, p.cmd.Process.Signal(syscall.SIGTERM))
	require.NoError(t, p.wait())
	for line := range strings.Lines(p.log.String()) {
		require.True(t, strings.HasPrefix(line, `{"time":`), line)
	}
}

// Tasks set with a write token make no more topics than allowed, or none.
func TestTopicsThatTasksMake(t *testing.T) {
	tokens := []string{"TIMEOUTD_WRITE_TOKEN=writer-0123456789", "TIMEOUTD_ADMIN_TOKEN=master-0123456789"}
	writer, master := []string{"Authorization", "Bearer writer-0123456789"}, []string{"Authorization", "Bearer master-0123456789"}
	p := start(t, process{args: []string{"-memory", "-max-topics", "1"}, env: tokens})
	status, body := p.ask(t, http.MethodPut, "/v1/topics/a/tasks/1", `{"after":"1h"}`, writer...)
	require.Equal(t, http.StatusCreated, status, body)
	status, body = p.ask(t, http.MethodPut, "/v1/topics/b/tasks/1", `{"after":"1h"}`, writer...)
	require.Equal(t, http.StatusInsufficientStorage, status)
	require.Contains(t, body, "there would be 2 topics, must be at most 1")
	status, body = p.ask(t, http.MethodPut, "/v1/topics/b", `{}`, master...)
	require.Equal(t, http.StatusOK, status, body)

	p = start(t, process{args: []string{"-memory", "-known-topics"}, env: tokens})
	status, body = p.ask(t, http.MethodPut, "/v1/topics/a/tasks/1", `{"after":"1h"}`, writer...)
	require.Equal(t, http.StatusNotFound, status)
	require.Contains(t, body, "tasks make none")
	status, body = p.ask(t, http.MethodPut, "/v1/topics/a", `{}`, master...)
	require.Equal(t, http.StatusOK, status, body)
	status, body = p.ask(t, http.MethodPut, "/v1/topics/a/tasks/1", `{"after":"1h"}`, writer...)
	require.Equal(t, http.StatusCreated, status, body)
}

// The commands are the same program.
func TestCommandsOfTheProgram(t *testing.T) {
	p := start(t, process{args: []string{"-memory"}})
	t.Setenv("TIMEOUTD_URL", "http://"+p.addr(t))
	var out, errs strings.Builder
	require.Zero(t, run(t.Context(), []string{"set", "orders", "4711", "-after", "15m", "-payload", "{}"}, &out, &errs), errs.String())
	require.Zero(t, run(t.Context(), []string{"list", "orders"}, &out, &errs), errs.String())
	require.Contains(t, out.String(), "4711")
	require.Equal(t, cli.ExitUsage, run(t.Context(), []string{"sett"}, &out, &errs))
}

// Silent connections, and connections with half a request, don't keep others out.
func TestSlowClients(t *testing.T) {
	p := start(t, process{args: []string{"-memory", "-max-conns", "20"}})
	for i := range 40 {
		c, err := net.Dial("tcp", p.addr(t))
		require.NoError(t, err)
		defer c.Close()
		if i%2 == 0 {
			fmt.Fprint(c, "PUT /v1/topics/t/tasks/1 HTTP/1.1\r\nHost: localhost\r\nContent-Length: 100\r\nContent-Type: application/json\r\n\r\n{")
		} else {
			fmt.Fprint(c, "GET /v1/topics HTTP/1.1\r\nHost: localhost\r\nX-Long: ")
		}
	}
	require.Eventually(t, func() bool {
		client := http.Client{Timeout: 10 * time.Second, Transport: &http.Transport{DisableKeepAlives: true}}
		res, err := client.Get("http://" + p.addr(t) + "/readyz")
		if err != nil {
			return false
		}
		res.Body.Close()
		return res.StatusCode == http.StatusOK
	}, eternal, 50*time.Millisecond)
}

// Any bytes get an answer or an end, and the program goes on.
func TestHostileBytes(t *testing.T) {
	p := start(t, process{args: []string{"-memory"}})
	for _, text := range []string{
		"\x00\x01\x02\r\n\r\n",
		"GET /v1/topics HTTP/1.1\r\n\r\n",
		"GET /v1/topics HTTP/1.1\r\nHost: a\r\nHost: localhost\r\n\r\n",
		"GET /v1/topics HTTP/1.1\r\nHost: localhost\r\nX: " + strings.Repeat("x", 64<<10) + "\r\n\r\n",
		"PUT /v1/topics/t/tasks/1 HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\nContent-Length: 5\r\n\r\n0\r\n\r\n",
		"PUT /v1/topics/t/tasks/1 HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: -5\r\n\r\n",
		"PUT /v1/topics/t/tasks/1 HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: 99999999999\r\nConnection: close\r\n\r\n" + strings.Repeat("[", 9<<20),
		"GET /v1/topics/../../etc/passwd HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n",
		"GET http://evil.example/v1/topics HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n",
		"CONNECT evil.example:80 HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n",
		"OPTIONS * HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n",
	} {
		c, err := net.Dial("tcp", p.addr(t))
		require.NoError(t, err)
		require.NoError(t, c.SetDeadline(time.Now().Add(eternal)))
		go func() { _, _ = io.WriteString(c, text) }()
		res, err := http.ReadResponse(bufio.NewReader(c), nil)
		if err == nil {
			require.NotEqual(t, http.StatusOK, res.StatusCode*boolInt(!strings.HasPrefix(text, "OPTIONS")), "%.80q", text)
			res.Body.Close()
		}
		c.Close()
	}
	status, body := p.ask(t, http.MethodGet, "/v1/topics", "")
	require.Equal(t, http.StatusOK, status)
	require.Equal(t, "{\"topics\":[]}\n", body)
}

func boolInt(b bool) int {
	if b {
		return 1
	}
	return 0
}

// The SQLite file is in systemd's directory, in XDG's or in the home directory.
func TestWhereTheFileIs(t *testing.T) {
	for _, c := range []struct {
		name string
		set  map[string]string
		want string
	}{
		{"xdg", map[string]string{"XDG_DATA_HOME": "/data", "STATE_DIRECTORY": ""}, "/data/heartwheel"},
		{"home", map[string]string{"XDG_DATA_HOME": "relative", "HOME": "/home/a", "STATE_DIRECTORY": ""}, "/home/a/.local/share/heartwheel"},
		{"systemd", map[string]string{"STATE_DIRECTORY": "/var/lib/timeoutd:/var/lib/other", "XDG_DATA_HOME": "/data"}, "/var/lib/timeoutd"},
	} {
		t.Run(c.name, func(t *testing.T) {
			for name, value := range c.set {
				t.Setenv(name, value)
			}
			dir, err := dataDir()
			require.NoError(t, err)
			require.Equal(t, c.want, dir)
		})
	}
	state := filepath.Join(t.TempDir(), "a", "b")
	t.Setenv("STATE_DIRECTORY", state)
	path, err := sqlitePath("")
	require.NoError(t, err)
	require.Equal(t, filepath.Join(state, "timeoutd.db"), path)
	info, err := os.Stat(state)
	require.NoError(t, err)
	require.Equal(t, os.FileMode(0o700), info.Mode().Perm())
}

// A volume that is not mounted must not be replaced by an empty directory of another one.
func TestTheDirectoryOfANamedFileIsNotMade(t *testing.T) {
	volume := filepath.Join(t.TempDir(), "volume")
	for _, files := range []string{filepath.Join(volume, "tasks.db"), filepath.Join(volume, "a", "tasks.db"), filepath.Join(t.TempDir(), "a.db") + ":" + filepath.Join(volume, "tasks.db")} {
		p := process{args: []string{"-sqlite", files}}
		p.launch(t)
		var exit *exec.ExitError
		require.ErrorAs(t, p.wait(), &exit)
		require.Equal(t, cli.ExitFailure, exit.ExitCode())
		require.Contains(t, p.log.String(), "of the sqlite file tasks.db is not there: make it, or mount its volume")
		require.NoDirExists(t, volume)
	}
	file := filepath.Join(t.TempDir(), "file")
	require.NoError(t, os.WriteFile(file, nil, 0o600))
	_, err := sqlitePath(filepath.Join(file, "tasks.db"))
	require.ErrorContains(t, err, "is no directory")
	require.NoError(t, os.Mkdir(volume, 0o700))
	path, err := sqlitePath(filepath.Join(volume, "tasks.db"))
	require.NoError(t, err)
	require.Equal(t, filepath.Join(volume, "tasks.db"), path)
}

// An error in opening something is logged without its password.
func TestPasswordsAreNotLogged(t *testing.T) {
	t.Parallel()
	for _, env := range []string{
		"REDIS_URL=redis://:secret@127.0.0.1:1/0", "REDIS_URL=redis://:secret@127.0.0.1:x/0", "REDIS_URL=redis://:secret@127.0.0.1:1/x",
		"DATABASE_URL=postgres://u:secret@127.0.0.1:1/d postgres://u:secret@127.0.0.1:1/e", "DATABASE_URL=postgres://u:secret@127.0.0.1:1/d", "DATABASE_URL=postgres://u:secret@127.0.0.1:1/d?x=%zz",
		"TIMEOUTD_STREAMS=redis://:secret@127.0.0.1:1/x", "NATS_URL=nats://u:secret@127.0.0.1:1/%zz",
	} {
		p := process{env: []string{env}}
		p.launch(t)
		var exit *exec.ExitError
		require.ErrorAs(t, p.wait(), &exit, env)
		require.NotEmpty(t, p.log.String())
		require.NotContains(t, p.log.String(), "secret", env)
	}
}
