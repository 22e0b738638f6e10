//go:build interop

package main

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/coder/websocket"
	"github.com/stretchr/testify/require"
)

const (
	ms      = time.Millisecond
	eternal = time.Minute
)

// build builds Caddy as its users do, and returns its path.
var build = sync.OnceValues(func() (path string, err error) {
	dir, err := os.MkdirTemp("", "caddy")
	if err != nil {
		return "", err
	}
	path = filepath.Join(dir, "caddy")
	cmd := exec.Command("go", "build", "-o", path, ".")
	if out, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("%w: %s", err, out)
	}
	return path, nil
})

func TestMain(m *testing.M) {
	code := m.Run()
	if path, err := build(); err == nil {
		_ = os.RemoveAll(filepath.Dir(path))
	}
	os.Exit(code)
}

// command is Caddy with arguments, and nothing of this machine's.
func command(t *testing.T, args ...string) *exec.Cmd {
	t.Helper()
	path, err := build()
	require.NoError(t, err)
	cmd := exec.Command(path, args...)
	home := t.TempDir()
	cmd.Env = append(os.Environ(), "HOME="+home, "XDG_DATA_HOME="+home, "XDG_CONFIG_HOME="+home)
	return cmd
}

func output(t *testing.T, args ...string) string {
	t.Helper()
	out, err := command(t, args...).CombinedOutput()
	require.NoError(t, err, "%s", out)
	return string(out)
}

func file(t *testing.T, text string) string {
	name := filepath.Join(t.TempDir(), "Caddyfile")
	require.NoError(t, os.WriteFile(name, []byte(text), 0o600))
	return name
}

func free(t *testing.T) string {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer ln.Close()
	return ln.Addr().String()
}

// Caddy knows the module, and the Caddyfile of the README and the one of the documentation make sense to it.
func TestTheCaddyfilesOfThePages(t *testing.T) {
	require.Contains(t, output(t, "list-modules"), "caddy.listeners.heartwheel")
	readme, err := os.ReadFile("../../README.md")
	require.NoError(t, err)
	first := regexp.MustCompile("(?s)```caddyfile\n(.*?)```").FindSubmatch(readme)[1]
	doc, err := os.ReadFile("../../doc.go")
	require.NoError(t, err)
	second := regexp.MustCompile(`(?s)In a Caddyfile:\n//\n(.*?\n//\t})\n`).FindSubmatch(doc)[1]
	for _, text := range []string{string(first), strings.ReplaceAll(string(second), "//\t", "")} {
		name := file(t, text+"\nhttp://127.0.0.1:1 {\n\trespond ok\n}\n")
		require.Contains(t, output(t, "adapt", "--config", name), `"wrapper":"heartwheel"`)
		output(t, "validate", "--config", name)
	}
	out, err := command(t, "validate", "--config", file(t, strings.Replace(string(first), "idle 2m", "idle -2m", 1))).CombinedOutput()
	require.Error(t, err)
	require.Contains(t, string(out), "idle -2m0s, must be at least 1ms")
}

// site is a running Caddy before a server of WebSockets.
type site struct {
	*testing.T
	admin, addr, backend string
}

func run(t *testing.T, options string) *site {
	backend := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Upgrade") == "" {
			fmt.Fprint(w, "ok")
			return
		}
		c, err := websocket.Accept(w, r, nil)
		for err == nil {
			var kind websocket.MessageType
			var text []byte
			if kind, text, err = c.Read(context.Background()); err == nil {
				err = c.Write(context.Background(), kind, text)
			}
		}
	}))
	t.Cleanup(backend.Close)
	s := &site{t, free(t), free(t), backend.Listener.Addr().String()}
	cmd := command(t, "run", "--config", s.caddyfile(options))
	require.NoError(t, cmd.Start())
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	})
	require.Eventually(t, func() bool {
		res, err := http.Get("http://" + s.addr)
		if err == nil {
			_ = res.Body.Close()
		}
		return err == nil
	}, eternal, 20*ms)
	return s
}

func (s *site) caddyfile(options string) string {
	return file(s.T, fmt.Sprintf(`{
	admin %s
	persist_config off
	default_bind 127.0.0.1
	servers {
		listener_wrappers {
			heartwheel {
				%s
			}
			tls
		}
	}
}
http://%s {
	reverse_proxy %s {
		stream_close_delay 1m
	}
}
`, s.admin, options, s.addr, s.backend))
}

func (s *site) dial() *websocket.Conn {
	s.Helper()
	c, _, err := websocket.Dial(s.Context(), "ws://"+s.addr, nil)
	require.NoError(s, err)
	s.Cleanup(func() { _ = c.CloseNow() })
	return c
}

func echo(ctx context.Context, c *websocket.Conn) error {
	err := c.Write(ctx, websocket.MessageText, []byte("beat"))
	if err == nil {
		_, _, err = c.Read(ctx)
	}
	return err
}

func TestWebSocketsAndCurlThroughCaddy(t *testing.T) {
	const idle = 600 * ms
	s := run(t, "idle 600ms")
	out, err := exec.Command("curl", "-sS", "--max-time", "30", "http://"+s.addr).CombinedOutput()
	require.NoError(t, err, "%s", out)
	require.Equal(t, "ok", string(out))

	alive, silent := s.dial(), s.dial()
	begin := time.Now()
	gone := make(chan time.Time, 1)
	go func() {
		_, _, _ = silent.Read(context.Background())
		gone <- time.Now()
	}()
	for range 20 {
		time.Sleep(idle / 8)
		require.NoError(t, echo(t.Context(), alive))
	}
	require.GreaterOrEqual(t, (<-gone).Sub(begin), idle)
}

// A reload by Caddy's own command: the WebSockets of the old config work on, and end one after the other.
func TestReloadByTheCommand(t *testing.T) {
	s := run(t, "idle 1m\ndrain 2s")
	const conns = 10
	var olds []*websocket.Conn
	for range conns {
		olds = append(olds, s.dial())
		require.NoError(t, echo(t.Context(), olds[len(olds)-1]))
	}
	begin := time.Now()
	output(t, "reload", "--config", s.caddyfile("idle 2m"), "--address", s.admin)
	ends := make(chan time.Duration, conns)
	for _, c := range olds {
		go func() {
			for echo(context.Background(), c) == nil {
				time.Sleep(20 * ms)
			}
			ends <- time.Since(begin)
		}()
	}
	late := 0
	for range conns {
		if <-ends > time.Second {
			late++
		}
	}
	require.GreaterOrEqual(t, late, conns/2-1)
	require.NoError(t, echo(t.Context(), s.dial()))
}
