//go:build unix

package main

import (
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestAFileThatCannotBeReadAgainIsRefused(t *testing.T) {
	fifo := filepath.Join(t.TempDir(), "fifo")
	require.NoError(t, syscall.Mkfifo(fifo, 0o600))
	_, err := read([]string{"-config", fifo}, environment(nil))
	require.ErrorContains(t, err, "fifo is no regular file (p---------)")
}

// reload writes the config file and says so.
func (p *process) reload(t *testing.T, path, text string) {
	t.Helper()
	require.NoError(t, os.WriteFile(path, []byte(text), 0o600))
	require.NoError(t, p.cmd.Process.Signal(syscall.SIGHUP))
}

func TestReloadChangesOpenConnections(t *testing.T) {
	t.Parallel() // it mostly waits
	path := configFile(t, "timeout 5s\nmax-conns 10\n")
	p := start(t, process{args: []string{"-config", path, "-tick", "10ms", "-drain", "0s", "-loops", "1"}})
	open := p.dial(t)
	require.Equal(t, "hello\n", open.ask(t, "hello\n"))
	begin := time.Now()
	p.reload(t, path, "timeout 3s\nmax-conns 1\nfirst-message 2s\nlog-level debug\ndrain 1h\nshutdown-timeout 2h")
	require.Equal(t, "BYE idle timeout 3s\n", open.rest(t))
	require.Less(t, time.Since(begin), eternal)
	p.logged(t, `level=INFO msg=reloaded timeout="5s -> 3s" first-message="0s -> 2s" max-conns="10 -> 1" shutdown-timeout="0s -> 2h0m0s" log-level="info -> debug"\n`)

	require.NoError(t, p.cmd.Process.Signal(syscall.SIGHUP))
	p.logged(t, `msg="reloaded, nothing has changed" config=`+path)

	silent := p.dial(t)
	require.Equal(t, "ERR too many connections\n", p.dial(t).rest(t))
	require.Equal(t, "BYE first message timeout 2s\n", silent.rest(t))
	p.logged(t, "level=DEBUG.*closed a connection")
	require.NoError(t, p.cmd.Process.Signal(syscall.SIGTERM))
	require.NoError(t, p.wait(), "at once: the flag says that there is no drain")
}

func TestReloadThatIsWrongChangesNothing(t *testing.T) {
	path := configFile(t, "timeout 1m\nmax-age 2h\n")
	p := start(t, process{args: []string{"-config", path, "-loops", "1"}})
	open := p.dial(t)
	require.Equal(t, "hello\n", open.ask(t, "hello\n"))
	for _, c := range []struct{ text, want string }{
		{"timeout 100ms\nnonsense\n", `FILE:2: unknown name "nonsense"`},
		{"timeout 100ms\nmax-age -1s\n", `FILE:2: invalid value "-1s" for max-age: must not be negative`},
		{"timeout 5ms\n", `Tick 10ms is longer than Timeout 5ms (timeout is from FILE:1)`},
		{"timeout 100ms\nfull evict", `Full evict, can't be changed from "reject" while the program runs (full is from FILE:2)`},
		{"timeout 100ms\nadmin 127.0.0.1:0", `Admin 127.0.0.1:0, can't be changed from "" while the program runs (admin is from FILE:2)`},
		{"timeout 100ms\nlog-format json", `LogFormat json, can't be changed from "text" while`},
		{"timeout 100ms\nmax-conns 999999999999", `Room.MaxConns 999999999999: the process may have`},
	} {
		before := len(p.log.String())
		p.reload(t, path, c.text)
		require.Eventually(t, func() bool { return strings.HasSuffix(p.log.String()[before:], "\n") }, eternal, time.Millisecond)
		line := p.log.String()[before:]
		require.Equal(t, 1, strings.Count(line, "\n"), line)
		want := strings.ReplaceAll(c.want, "FILE", path)
		require.Contains(t, line, `level=ERROR msg="not reloaded, nothing has changed" error=`)
		require.Contains(t, strings.ReplaceAll(line, `\"`, `"`), want)
	}
	require.NoError(t, os.Remove(path))
	require.NoError(t, p.cmd.Process.Signal(syscall.SIGHUP))
	p.logged(t, "no such file or directory")
	p.reload(t, path, "max-age 2h\ntimeout 60s")
	p.logged(t, `msg="reloaded, nothing has changed"`)
	require.Equal(t, "hello\n", open.ask(t, "hello\n"))
}

func TestFlagsWinOverTheFileAtAReload(t *testing.T) {
	path := configFile(t, "timeout 1m")
	p := start(t, process{args: []string{"-config", path, "-timeout", "2m"}})
	p.reload(t, path, "timeout 100ms\naddr 127.0.0.1:1\nmax-age 1h")
	p.logged(t, `msg=reloaded max-age="0s -> 1h0m0s"\n`)
}

// Without a file SIGHUP means what it means to any program: its terminal is gone.
func TestHangUpWithoutAFile(t *testing.T) {
	p := start(t, process{})
	require.NoError(t, p.cmd.Process.Signal(syscall.SIGHUP))
	var exit *exec.ExitError
	require.ErrorAs(t, p.wait(), &exit)
	require.False(t, exit.Exited())
}

// While it goes down, nothing is reloaded.
func TestReloadWhileGoingDown(t *testing.T) {
	t.Parallel() // it mostly waits
	path := configFile(t, "drain-delay 4s")
	p := start(t, process{args: []string{"-config", path}})
	c := p.dial(t)
	require.Equal(t, "hello\n", c.ask(t, "hello\n"))
	require.NoError(t, p.cmd.Process.Signal(syscall.SIGTERM))
	p.logged(t, "shutting down soon")
	p.reload(t, path, "timeout 1h")
	p.logged(t, `level=WARN msg="not reloaded" error="the program is going down"`)
	require.Equal(t, "BYE server shutting down\n", c.rest(t))
	require.NoError(t, p.wait())
}

// Many signals and changes, beside busy clients: nobody notices.
func TestReloadsBesideTraffic(t *testing.T) {
	path := configFile(t, "")
	p := start(t, process{args: []string{"-config", path}})
	c := p.dial(t)
	for i := range 50 {
		p.reload(t, path, []string{"timeout 1m", "timeout 2m", "nonsense", "max-age 1h\nmin-beat 1ms"}[i%4])
		require.Equal(t, "PONG\n", c.ask(t, "PING\n"))
	}
	p.reload(t, path, "timeout 77s")
	p.logged(t, `timeout="[^"]* -> 1m17s"`)
	require.Equal(t, "PONG\n", c.ask(t, "PING\n"))
}

// A SIGHUP never ends the program, not even while it ends by itself.
func TestHangupsWhileItEnds(t *testing.T) {
	t.Parallel() // it mostly waits
	p := start(t, process{args: []string{"-admin", "127.0.0.1:0", "-config", configFile(t, "timeout 1m")}})
	c, err := net.Dial("tcp", p.addr(t, "admin")) // the admin pages wait for it a moment
	require.NoError(t, err)
	defer c.Close()
	fmt.Fprint(c, "GET /readyz HTTP/1.1\r\n") // and no more
	time.Sleep(20 * time.Millisecond)
	require.NoError(t, p.cmd.Process.Signal(syscall.SIGTERM))
	for range 200 {
		if p.cmd.Process.Signal(syscall.SIGHUP) != nil {
			break
		}
		time.Sleep(5 * time.Millisecond)
	}
	require.NoError(t, p.wait())
}

// The line about the change is there, whether the new level logs less or more.
func TestReloadOfTheLogLevelIsLogged(t *testing.T) {
	path := configFile(t, "timeout 1m")
	p := start(t, process{args: []string{"-config", path}})
	p.reload(t, path, "log-level warn")
	p.logged(t, `msg=reloaded timeout="1m0s -> 30s" log-level="info -> warn"`)
	p.reload(t, path, "log-level error")
	p.reload(t, path, "nonsense")
	p.logged(t, `not reloaded`)
	p.reload(t, path, "log-level info")
	p.logged(t, `msg=reloaded log-level="(?:warn|error) -> info"`)
}
