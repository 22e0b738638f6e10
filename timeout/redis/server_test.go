package redis_test

import (
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"sync"
	"testing"
	"time"

	goredis "github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/heartwheel-go/heartwheel/timeout/redis"
)

// server is a redis-server that a test has started.
type server struct {
	t    testing.TB
	port int
	dir  string
	args []string
	cmd  *exec.Cmd
}

func startServer(t testing.TB, args ...string) *server {
	t.Helper()
	s := &server{t: t, port: freePort(t), dir: t.TempDir(), args: args}
	s.start()
	t.Cleanup(s.kill)
	return s
}

func freePort(t testing.TB) int {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer ln.Close()
	return ln.Addr().(*net.TCPAddr).Port
}

func (s *server) addr() string { return "127.0.0.1:" + strconv.Itoa(s.port) }
func (s *server) url() string  { return "redis://" + s.addr() }

func (s *server) start() {
	s.t.Helper()
	args := append([]string{
		"--port", strconv.Itoa(s.port), "--dir", s.dir, "--bind", "127.0.0.1", "--save", "",
		"--logfile", filepath.Join(s.dir, "log"), "--enable-debug-command", "yes",
	}, s.args...)
	s.cmd = exec.Command("redis-server", args...)
	require.NoError(s.t, s.cmd.Start())
	client := goredis.NewClient(&goredis.Options{Addr: s.addr()})
	defer client.Close()
	require.Eventually(s.t, func() bool { return client.Ping(context.Background()).Err() == nil }, 20*time.Second, 5*time.Millisecond)
}

// info returns a number that the server knows of itself.
func (s *server) info(t testing.TB, section, field string) float64 {
	all, err := s.client(t).InfoMap(context.Background(), section).Result()
	require.NoError(t, err)
	for _, fields := range all {
		if text, ok := fields[field]; ok {
			number, err := strconv.ParseFloat(text, 64)
			require.NoError(t, err)
			return number
		}
	}
	t.Fatalf("no %s", field)
	return 0
}

// cpu returns how many seconds of a processor the server has used.
func (s *server) cpu() float64 {
	return s.info(s.t, "cpu", "used_cpu_user") + s.info(s.t, "cpu", "used_cpu_sys")
}

// kill is SIGKILL.
func (s *server) kill() {
	if s.cmd.Process != nil {
		_ = s.cmd.Process.Kill()
		_ = s.cmd.Wait()
	}
}

func (s *server) client(t testing.TB) *goredis.Client {
	client := goredis.NewClient(&goredis.Options{Addr: s.addr(), MaxRetries: -1})
	t.Cleanup(func() { client.Close() })
	return client
}

var shared struct {
	once sync.Once
	s    *server
	dir  string
	n    int
	mu   sync.Mutex
}

type silent struct{}

func (silent) Printf(context.Context, string, ...any) {}

func TestMain(m *testing.M) {
	goredis.SetLogger(silent{}) // servers are killed here
	code := m.Run()
	if shared.s != nil {
		shared.s.kill()
		os.RemoveAll(shared.dir)
	}
	// The client's pool looks every second whether a server is there again, also once after it
	// has been closed.
	if err := goleak.Find(goleak.IgnoreAnyFunction("github.com/redis/go-redis/v9/internal/pool.(*ConnPool).tryDial")); err != nil && code == 0 {
		fmt.Fprintln(os.Stderr, err)
		code = 1
	}
	os.Exit(code)
}

// sharedServer is one server for all tests that don't harm it.
func sharedServer(t testing.TB) *server {
	shared.once.Do(func() {
		dir, err := os.MkdirTemp("", "redis")
		require.NoError(t, err)
		shared.dir = dir
		shared.s = &server{t: t, port: freePort(t), dir: dir}
		shared.s.start()
	})
	return shared.s
}

func prefix() string {
	shared.mu.Lock()
	defer shared.mu.Unlock()
	shared.n++
	return fmt.Sprintf("test-%d", shared.n)
}

func openEngine(t testing.TB, s *server, cfg redis.Config) *redis.Engine {
	t.Helper()
	if cfg.Prefix == "" {
		cfg.Prefix = prefix()
	}
	engine, err := redis.Open(context.Background(), s.url(), cfg)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, engine.Close()) })
	return engine
}
