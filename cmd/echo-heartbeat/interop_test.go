//go:build interop

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

	"github.com/stretchr/testify/require"

	"github.com/heartwheel-go/heartwheel/internal/proctest"
)

// notifyReload reports whether this systemd knows Type=notify-reload, new in 253.
func notifyReload(t *testing.T) bool {
	out, err := exec.Command("systemd-analyze", "--version").Output()
	require.NoError(t, err)
	var version int
	_, err = fmt.Sscanf(string(out), "systemd %d", &version)
	require.NoError(t, err, "%s", out)
	return version >= 253
}

// systemd's own check of the units. They are as shipped, but for the path of the program.
func TestSystemdVerifiesTheUnits(t *testing.T) {
	dir := t.TempDir()
	var units []string
	for _, name := range []string{"echo-heartbeat.service", "echo-heartbeat.socket", "echo-heartbeat-admin.socket"} {
		text, err := os.ReadFile(filepath.Join("..", "..", "deploy", "systemd", name))
		require.NoError(t, err)
		unit := strings.ReplaceAll(string(text), "/usr/local/bin/echo-heartbeat", "/bin/true")
		if !notifyReload(t) {
			unit = strings.Replace(unit, "\nType=notify-reload\n", "\nType=notify\nExecReload=kill -HUP $MAINPID\n", 1)
		}
		path := filepath.Join(dir, name)
		require.NoError(t, os.WriteFile(path, []byte(unit), 0o600))
		units = append(units, path)
	}
	for _, path := range units {
		cmd := exec.Command("systemd-analyze", "verify", "--man=no", path)
		cmd.Env = append(os.Environ(), "SYSTEMD_UNIT_PATH="+dir+":")
		out, err := cmd.CombinedOutput()
		require.NoError(t, err, "%s", out)
		for line := range strings.Lines(string(out)) { // others may have their faults
			require.NotContains(t, line, "echo-heartbeat", "%s", out)
		}
	}
	out, err := exec.Command("systemd-analyze", "security", "--offline=yes", "--threshold=20", units[0]).CombinedOutput()
	require.NoError(t, err, "exposed more than 2.0 of 10:\n%s", out)
}

// systemd's own passing of sockets.
func TestSystemdSocketActivate(t *testing.T) {
	free, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	addr := free.Addr().String()
	free.Close()
	self, err := os.Executable()
	require.NoError(t, err)
	p := process{cmd: exec.Command("systemd-socket-activate", "-l", addr, "-E", proctest.AsProgram, self, "-timeout", "3s")}
	p.log, p.wait = proctest.Start(t, p.cmd)
	p.logged(t, "Listening on")
	c := dial(t, addr)
	require.Equal(t, "PONG\n", c.ask(t, "PING\n"))
	require.Equal(t, addr, p.addr(t, "server"))
	require.Equal(t, "BYE idle timeout 3s\n", c.rest(t))
	open := dial(t, addr)
	require.Equal(t, "PONG\n", open.ask(t, "PING\n"))
	require.NoError(t, p.cmd.Process.Signal(syscall.SIGTERM))
	require.Equal(t, "BYE server shutting down\n", open.rest(t))
}

// The probe of many a script.
func TestCurlAdminPages(t *testing.T) {
	p := start(t, process{args: []string{"-admin", "127.0.0.1:0"}})
	p.ready(t)
	out, err := exec.Command("curl", "-sS", "--fail", "http://"+p.addr(t, "admin")+"/readyz").CombinedOutput()
	require.NoError(t, err, "%s", out)
	require.Equal(t, "ok\n", string(out))
}

// With the hosts of health checks, and with those of a rebound name.
func TestCurlNamesTheHost(t *testing.T) {
	p := start(t, process{args: []string{"-admin", ":0", "-admin-hosts", "gateway.example"}})
	p.ready(t)
	_, port, err := net.SplitHostPort(p.addr(t, "admin"))
	require.NoError(t, err)
	curl := func(args ...string) string {
		args = append([]string{"-sS", "-w", "%{http_code}"}, args...)
		out, err := exec.Command("curl", args...).CombinedOutput()
		require.NoError(t, err, "%s", out)
		return string(out)
	}
	for _, path := range []string{"/", "/healthz", "/readyz", "/metrics", "/debug/wheel"} {
		for _, host := range []string{"127.0.0.1", "[::1]", "localhost"} {
			require.Regexp(t, "200$", curl("http://"+host+":"+port+path))
		}
		require.Regexp(t, "200$", curl("-0", "-H", "Host: gateway.example:"+port, "http://127.0.0.1:"+port+path))
		require.Regexp(t, "200$", curl("--resolve", "gateway.example:"+port+":127.0.0.1", "http://gateway.example:"+port+path))
		for _, host := range []string{"evil.example", "evil.example:" + port} {
			require.Regexp(t, `the host "`+host+`" is not .* add the name to -admin-hosts.*\s403$`, curl("-H", "Host: "+host, "http://127.0.0.1:"+port+path))
		}
		require.Regexp(t, `"evil.example:`+port+`" is not .*\s403$`, curl("--resolve", "evil.example:"+port+":127.0.0.1", "http://evil.example:"+port+path))
	}
	require.Equal(t, "ok\n200", curl("-H", "Host: 10.1.2.3:"+port, "http://127.0.0.1:"+port+"/healthz"), "the address of a pod")
	require.Equal(t, "ok\n200", curl("-0", "-H", "Host:", "http://127.0.0.1:"+port+"/healthz"), "HTTP/1.0 without one")
}
