//go:build unix

package main

import (
	"fmt"
	"net"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// manager is systemd for a service: a socket for its state.
type manager struct {
	*net.UnixConn
	path string
}

func newManager(t *testing.T) *manager {
	path := filepath.Join(t.TempDir(), "notify")
	conn, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: path, Net: "unixgram"})
	require.NoError(t, err)
	t.Cleanup(func() { conn.Close() })
	require.NoError(t, conn.SetDeadline(time.Now().Add(eternal)))
	return &manager{conn, path}
}

// told returns the next message, except the watchdog's.
func (m *manager) told(t *testing.T) string {
	t.Helper()
	b := make([]byte, 1<<10)
	for {
		n, err := m.Read(b)
		require.NoError(t, err)
		if s := string(b[:n]); s != "WATCHDOG=1" {
			return s
		}
	}
}

func TestSystemdIsTold(t *testing.T) {
	t.Parallel() // it mostly waits
	m := newManager(t)
	path := configFile(t, "timeout 1m\n")
	p := start(t, process{
		args: []string{"-config", path, "-drain", "2s"},
		env:  []string{"NOTIFY_SOCKET=" + m.path, "WATCHDOG_USEC=300000"},
	})
	ready := "READY=1\nSTATUS=listening on " + p.addr(t, "server")
	require.Equal(t, ready, m.told(t))

	p.reload(t, path, "timeout 2m\n")
	require.Regexp(t, regexp.MustCompile(`^MONOTONIC_USEC=\d+\nRELOADING=1$`), m.told(t))
	require.Equal(t, ready, m.told(t))
	p.reload(t, path, "nonsense\n")
	require.Contains(t, m.told(t), "RELOADING=1")
	require.Equal(t, ready, m.told(t), "it goes on as before")

	for range 3 {
		b := make([]byte, 1<<10)
		n, err := m.Read(b)
		require.NoError(t, err)
		require.Equal(t, "WATCHDOG=1", string(b[:n]))
	}
	require.NoError(t, p.cmd.Process.Signal(syscall.SIGTERM))
	require.Equal(t, "STOPPING=1\nSTATUS=going down\nEXTEND_TIMEOUT_USEC=17000000", m.told(t))
	require.NoError(t, p.wait())
}

// A socket that is missing does no harm.
func TestSystemdThatDoesNotHear(t *testing.T) {
	p := start(t, process{env: []string{"NOTIFY_SOCKET=/no/such/socket", "WATCHDOG_USEC=nonsense"}})
	p.logged(t, "systemd: not told.*READY=1")
	p.logged(t, "systemd: watchdog.*nonsense")
	require.Equal(t, "PONG\n", p.dial(t).ask(t, "PING\n"))
	require.NoError(t, p.cmd.Process.Signal(syscall.SIGTERM))
	require.NoError(t, p.wait())
}

// A systemd that reads nothing holds up neither a reload nor the end.
func TestSystemdThatDoesNotRead(t *testing.T) {
	t.Parallel() // it mostly waits
	m := newManager(t)
	fill(t, m.path)
	path := configFile(t, "timeout 1m\n")
	p := start(t, process{args: []string{"-config", path}, env: []string{"NOTIFY_SOCKET=" + m.path}})
	p.logged(t, "systemd: not told.*READY=1.*i/o timeout")
	p.reload(t, path, "timeout 2m\n")
	p.logged(t, "msg=reloaded")
	require.NoError(t, p.cmd.Process.Signal(syscall.SIGTERM))
	require.NoError(t, p.wait())
}

// fill sends to a socket until it takes no more.
func fill(t *testing.T, path string) {
	conn, err := net.DialUnix("unixgram", nil, &net.UnixAddr{Name: path, Net: "unixgram"})
	require.NoError(t, err)
	defer conn.Close()
	raw, err := conn.SyscallConn()
	require.NoError(t, err)
	for full := error(nil); full == nil; {
		require.NoError(t, raw.Write(func(fd uintptr) bool {
			_, full = syscall.Write(int(fd), []byte("X=1")) // does not wait
			return true
		}))
		if full != nil {
			require.ErrorIs(t, full, syscall.EAGAIN)
		}
	}
}

// listener returns a listening socket to pass, and its address.
func listener(t *testing.T) (file *os.File, addr string) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer ln.Close()
	file, err = ln.(*net.TCPListener).File()
	require.NoError(t, err)
	t.Cleanup(func() { file.Close() })
	return file, ln.Addr().String()
}

func TestSocketsFromSystemd(t *testing.T) {
	t.Parallel() // it mostly waits
	main, mainAddr := listener(t)
	admin, adminAddr := listener(t)
	early := dial(t, mainAddr) // before there is a program
	with := process{
		files: []*os.File{admin, main}, names: "admin:echo-heartbeat.socket",
		args: []string{"-timeout", "3s", "-tick", "10ms", "-max-conns", "2"},
	}
	p := start(t, with)
	require.Equal(t, mainAddr, p.addr(t, "server"))
	require.Equal(t, adminAddr, p.addr(t, "admin"))
	p.ready(t)
	require.Equal(t, "PONG\n", early.ask(t, "PING\n"))
	second := p.dial(t)
	require.Equal(t, "hello\n", second.ask(t, "hello\n"))
	require.Equal(t, "ERR too many connections\n", p.dial(t).rest(t))
	require.Equal(t, "BYE idle timeout 3s\n", early.rest(t))
	require.Equal(t, "BYE idle timeout 3s\n", second.rest(t))

	// One follows the other, and nobody is turned away.
	require.NoError(t, p.cmd.Process.Signal(syscall.SIGTERM))
	require.NoError(t, p.wait())
	between := dial(t, mainAddr)
	next := start(t, with)
	require.Equal(t, "PONG\n", between.ask(t, "PING\n"))
	require.NoError(t, next.cmd.Process.Signal(syscall.SIGTERM))
	require.Equal(t, "BYE server shutting down\n", between.rest(t))
	require.NoError(t, next.wait())
}

// A reload keeps the inherited address, although no flag has it.
func TestReloadWithASocketFromSystemd(t *testing.T) {
	t.Parallel() // it mostly waits
	main, addr := listener(t)
	path := configFile(t, "timeout 1m")
	p := start(t, process{files: []*os.File{main}, args: []string{"-config", path}})
	p.reload(t, path, "timeout 300ms\n")
	p.logged(t, `msg=reloaded timeout="1m0s -> 300ms"`)
	require.Equal(t, "BYE idle timeout 300ms\n", dial(t, addr).rest(t))
}

func TestSocketsThatAreNone(t *testing.T) {
	null, err := os.Open(os.DevNull)
	require.NoError(t, err)
	defer null.Close()
	one, _ := listener(t)
	other, _ := listener(t)
	udp, err := net.ListenPacket("udp", "127.0.0.1:0")
	require.NoError(t, err)
	defer udp.Close()
	packets, err := udp.(*net.UDPConn).File()
	require.NoError(t, err)
	defer packets.Close()
	bound, err := syscall.Socket(syscall.AF_INET, syscall.SOCK_STREAM, 0)
	require.NoError(t, err)
	require.NoError(t, syscall.Bind(bound, &syscall.SockaddrInet4{Addr: [4]byte{127, 0, 0, 1}}))
	deaf := os.NewFile(uintptr(bound), "deaf")
	defer deaf.Close()
	for want, c := range map[string]process{
		`the socket "d", which was passed, must be a listening one: it does not listen`:       {files: []*os.File{deaf}, names: "d"},
		`LISTEN_FDS is 3, must be at most 2: a socket, and one of the name "admin"`:           {files: []*os.File{one, other, null}},
		`the socket "a", which was passed, must be a listening one`:                           {files: []*os.File{null}, names: "a"},
		`the socket "u", which was passed, must be a listening one`:                           {files: []*os.File{packets}, names: "u"},
		`a second socket was passed, "b", must be one, and one of the name "admin"`:           {files: []*os.File{one, other}, names: "a:b"},
		`a second socket was passed, "admin", must be one, and one of the name "admin"`:       {files: []*os.File{one, other}, names: "admin:admin"},
		`a second socket was passed, "LISTEN_FD_4", must be one, and one of the name "admin"`: {files: []*os.File{one, other}},
	} {
		c.launch(t, nil)
		require.EqualError(t, c.wait(), "exit status 1")
		require.Contains(t, strings.ReplaceAll(c.log.String(), `\"`, `"`), want)
	}
}

// The units say what the program understands.
func TestUnitsSetWhatThereIs(t *testing.T) {
	for _, name := range []string{"echo-heartbeat.service", "echo-heartbeat.socket", "echo-heartbeat-admin.socket"} {
		text, err := os.ReadFile(filepath.Join("..", "..", "deploy", "systemd", name))
		require.NoError(t, err)
		if strings.HasSuffix(name, "-admin.socket") {
			require.Contains(t, string(text), fmt.Sprintf("FileDescriptorName=%s\n", adminName))
		}
	}
	_, err := read([]string{"-config", filepath.Join("..", "..", "deploy", "systemd", "echo-heartbeat.conf")}, os.LookupEnv)
	require.NoError(t, err)
}
