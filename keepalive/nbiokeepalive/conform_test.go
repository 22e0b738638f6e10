package nbiokeepalive

import (
	"errors"
	"net"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/lesismal/nbio"
	"github.com/lesismal/nbio/taskpool"
	"github.com/stretchr/testify/require"

	"github.com/heartwheel-go/heartwheel/internal/frameworks"
	"github.com/heartwheel-go/heartwheel/keepalive"
	"github.com/heartwheel-go/heartwheel/keepalive/adapter/adaptertest"
	"github.com/heartwheel-go/heartwheel/keepalive/nbiokeepalive/internal/looptest"
)

// modes are the ways of a program to read, and to handle what it has read.
var modes = map[string]struct {
	config nbio.Config
	reads  bool // by itself, in OnRead
	jobs   bool // handles lines in jobs, on a pool
}{
	"level-triggered":       {config: nbio.Config{NPoller: 1}},
	"edge-triggered, async": {config: nbio.Config{EpollMod: nbio.EPOLLET, AsyncReadInPoller: true, IOExecute: read}},
	"one shot, async": {config: nbio.Config{
		EpollMod: nbio.EPOLLET, EPOLLONESHOT: nbio.EPOLLONESHOT, AsyncReadInPoller: true, IOExecute: read,
	}},
	"Unix sockets": {config: nbio.Config{Network: "unix"}},
	"OnRead":       {config: nbio.Config{NPoller: 2}, reads: true},
	"jobs":         {config: nbio.Config{NPoller: 2}, jobs: true},
}

// read is an IOExecute: the buffers of nbio's own one have no room.
func read(f func(buf *[]byte)) {
	go func() {
		buf := make([]byte, 1<<10)
		f(&buf)
	}()
}

func TestTheAdapterForNbioConforms(t *testing.T) {
	t.Parallel()
	for name, mode := range modes {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			unix := mode.config.Network == "unix"
			proved := adaptertest.Run(t, adaptertest.Adapter{
				NoSocket: unix,
				NoWait:   true,
				NoGoexit: true, // OnClose runs on nbio's goroutine
				Start: func(t *testing.T, k *keepalive.Keeper, handle adaptertest.Handler) net.Addr {
					config := mode.config
					if unix {
						config.Addrs = []string{filepath.Join(t.TempDir(), "s")}
					}
					e := newEngine(config, k)
					pool := taskpool.New(100, 1000)
					if mode.jobs {
						e.Execute = pool.Go
					}
					e.OnOpen(func(c *nbio.Conn) { c.SetSession(new(lines)) })
					onData := func(c *nbio.Conn, data []byte) {
						if mode.jobs {
							data = append([]byte(nil), data...)
							c.Execute(func() { handleLines(c, data, handle) })
							return
						}
						handleLines(c, data, handle)
					}
					e.OnData(onData)
					if mode.reads {
						e.OnRead(func(c *nbio.Conn) { readAll(c, onData) })
					}
					addr := start(t, e)
					t.Cleanup(pool.Stop)
					return addr
				},
			})
			if !unix {
				frameworks.Check(t, "[nbio](../keepalive/nbiokeepalive/doc.go)", "Linux, macOS, BSD", proved)
			}
		})
	}
}

// lines is the session of a connection: the beginning of a line.
type lines struct{ part []byte }

// handleLines handles all lines that are whole.
func handleLines(c *nbio.Conn, data []byte, handle adaptertest.Handler) {
	l := c.Session().(*lines)
	for _, b := range data {
		if b != '\n' {
			l.part = append(l.part, b)
			continue
		}
		answer, stay := handle(c, string(l.part))
		l.part = l.part[:0]
		_, _ = c.Write(answer)
		if !stay {
			_ = c.Close()
			return
		}
	}
}

// readAll is a program's OnRead.
func readAll(c *nbio.Conn, onData func(c *nbio.Conn, data []byte)) {
	buf := make([]byte, 1<<10)
	for {
		n, err := c.Read(buf)
		switch {
		case errors.Is(err, syscall.EINTR):
		case err != nil || n <= 0:
			return // nbio sees the end of the stream
		default:
			onData(c, buf[:n])
		}
	}
}

func newEngine(config nbio.Config, k *keepalive.Keeper) *Engine {
	if config.Network == "" {
		config.Network, config.Addrs = "tcp", []string{"127.0.0.1:0"}
	}
	return Wrap(nbio.NewEngine(config), k)
}

// start starts an engine, and stops it after the test.
func start(t testing.TB, e *Engine) net.Addr {
	t.Helper()
	require.NoError(t, e.Start())
	t.Cleanup(func() {
		looptest.Await(t)
		e.Stop()
	})
	if e.Network == "unix" {
		return &net.UnixAddr{Net: "unix", Name: e.Addrs[0]}
	}
	addr, err := net.ResolveTCPAddr("tcp", e.Addrs[0])
	require.NoError(t, err)
	return addr
}
