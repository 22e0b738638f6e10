package server

import (
	"bufio"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"math"
	"net"
	"runtime"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/heartwheel-go/heartwheel/internal/rlimit"
	"github.com/heartwheel-go/heartwheel/keepalive"
)

// These tests use real sockets, so real time. A timeout is such as a client keeps on a busy
// machine.
const (
	ms      = time.Millisecond
	timeout = 2 * time.Second
	beat    = timeout / 8
	eternal = time.Minute // how long a test waits for what must come
)

// byeIdle is the farewell after a timeout of silence.
const byeIdle = "BYE idle timeout 2s\n"

// running is a server, until the test ends.
type running struct {
	*Server
	cancel context.CancelFunc
	result chan error
}

func start(t testing.TB, cfg Config) *running {
	if cfg.Addr == "" && cfg.Listener == nil {
		cfg.Addr = "127.0.0.1:0"
	}
	if cfg.Timeout == 0 {
		cfg.Timeout, cfg.Tick = time.Minute, 0
	}
	s, err := New(cfg)
	require.NoError(t, err)
	require.Nil(t, s.Addr())
	require.Zero(t, s.Stats().Opened)
	ctx, cancel := context.WithCancel(context.Background())
	r := &running{Server: s, cancel: cancel, result: make(chan error, 1)}
	go func() { r.result <- s.Run(ctx); close(r.result) }()
	t.Cleanup(func() {
		cancel()
		select {
		case <-r.result:
		case <-time.After(eternal):
			t.Error("the server does not stop")
		}
	})
	select {
	case <-s.Ready():
	case err := <-r.result:
		require.NoError(t, err)
	}
	return r
}

func (r *running) dial(t testing.TB) net.Conn {
	c, err := net.Dial("tcp", r.Addr().String())
	require.NoError(t, err)
	t.Cleanup(func() { c.Close() })
	require.NoError(t, c.SetDeadline(time.Now().Add(eternal)))
	return c
}

// getRoom dials until a full server has evicted another connection. Those that are busy send something
// before each try.
func (r *running) getRoom(t testing.TB, busy ...net.Conn) {
	t.Helper()
	for began := time.Now(); ; time.Sleep(10 * ms) {
		for _, c := range busy {
			require.Equal(t, "PONG\n", ask(t, c, "PING\n"))
		}
		c := r.dial(t)
		_, _ = io.WriteString(c, "PING\n") // a refusal may be there, or have been lost
		if answer, _ := bufio.NewReader(c).ReadString('\n'); answer == "PONG\n" {
			return
		}
		require.Less(t, time.Since(began), eternal, "no room")
	}
}

// ask sends a line and returns the next one.
func ask(t testing.TB, c net.Conn, line string) string {
	t.Helper()
	_, err := io.WriteString(c, line)
	require.NoError(t, err)
	return readLine(t, c)
}

func readLine(t testing.TB, c net.Conn) string {
	t.Helper()
	var line []byte
	b := make([]byte, 1)
	for len(line) == 0 || line[len(line)-1] != '\n' {
		_, err := io.ReadFull(c, b)
		require.NoError(t, err, "after %q", line)
		line = append(line, b[0])
	}
	return string(line)
}

// rest returns everything until the server closes, cleanly.
func rest(t testing.TB, c net.Conn) string {
	t.Helper()
	b, err := io.ReadAll(c)
	require.NoError(t, err)
	return string(b)
}

func TestConversation(t *testing.T) {
	r := start(t, Config{Loops: 3})
	for range 20 { // each may come to another loop
		c := r.dial(t)
		require.Equal(t, "hello\n", ask(t, c, "hello\n"))
		require.Equal(t, "PONG\r\n", ask(t, c, "PING\r\n"))
		require.Equal(t, "PONG 5\n", ask(t, c, "PING 5\n"))
		for _, b := range "slow\n" {
			_, err := fmt.Fprintf(c, "%c", b)
			require.NoError(t, err)
		}
		require.Equal(t, "slow\n", readLine(t, c))
		_, err := io.WriteString(c, "a\nb\nQUIT\nc\n")
		require.NoError(t, err)
		require.Equal(t, "a\nb\nBYE\n", rest(t, c))
	}
	require.Eventually(t, func() bool { return r.Stats().Conns == 0 }, eternal, ms)
	require.EqualValues(t, 20, r.Stats().Closed[keepalive.ReasonLocal])
}

func TestIdleConnectionIsToldAndClosed(t *testing.T) {
	r := start(t, Config{Config: keepalive.Config{Timeout: timeout, Tick: 10 * ms}})
	begin := time.Now() // dialling takes a while on a busy machine, and the timeout runs
	silent, trickling, alive := r.dial(t), r.dial(t), r.dial(t)
	var wg sync.WaitGroup
	wg.Go(func() { // bytes without a line are no heartbeat
		for {
			time.Sleep(beat)
			if _, err := trickling.Write([]byte("x")); err != nil {
				return
			}
		}
	})
	wg.Go(func() {
		if got, err := io.ReadAll(silent); err != nil || string(got) != byeIdle {
			t.Errorf("silent: %q, %v", got, err)
		}
		if after := time.Since(begin); after < timeout {
			t.Errorf("early, after %v", after)
		}
	})
	wg.Go(func() {
		got, _ := io.ReadAll(trickling) // perhaps ended by a reset, since it sends
		if string(got) != byeIdle {
			t.Errorf("trickling: %q", got)
		}
	})
	for i := range 24 {
		require.Equal(t, fmt.Sprintf("PONG %d\n", i), ask(t, alive, fmt.Sprintf("PING %d\n", i)))
		time.Sleep(beat)
	}
	wg.Wait()
	require.Equal(t, "PONG\n", ask(t, alive, "PING\n"))
	require.EqualValues(t, 2, r.Stats().Closed[keepalive.ReasonIdle])
}

// The peer must be able to read why, however much it is still sending.
func TestLineTooLong(t *testing.T) {
	r := start(t, Config{})
	for _, size := range []int{64<<10 + 1, 300 << 10, 2 << 20} {
		c := r.dial(t)
		require.Equal(t, "first\n", ask(t, c, "first\n"))
		var wg sync.WaitGroup
		wg.Go(func() {
			_, _ = c.Write([]byte(strings.Repeat("x", size)))
			_, _ = c.Write([]byte("\nmore\n"))
		})
		require.Equal(t, "ERR line too long\n", rest(t, c), "%d bytes", size)
		wg.Wait()
		c.Close()
	}
	c := r.dial(t)
	line := strings.Repeat("y", 64<<10) + "\r\n"
	require.Equal(t, line, ask(t, c, line), "just as long as it may be")
	require.EqualValues(t, 3, r.Stats().LongLines)
	require.Eventually(t, func() bool { return r.Stats().Conns == 1 }, eternal, ms)
}

// A peer does not stay for ever by sending after the last word.
func TestLineTooLongForEver(t *testing.T) {
	r := start(t, Config{})
	c := r.dial(t)
	var err error
	for err == nil {
		_, err = c.Write(make([]byte, 64<<10))
	}
	require.NotErrorIs(t, err, context.DeadlineExceeded)
	require.Eventually(t, func() bool { return r.Stats().Conns == 0 }, eternal, ms)
}

func TestSlowReaderIsClosed(t *testing.T) {
	r := start(t, Config{MaxOutbound: 256 << 10})
	c := r.dial(t)
	line := []byte(strings.Repeat("z", 10_000) + "\n")
	var err error
	for err == nil {
		_, err = c.Write(line) // and never reads
	}
	var ne net.Error
	require.False(t, errors.As(err, &ne) && ne.Timeout(), "%v", err)
	require.Eventually(t, func() bool { return r.Stats().SlowReaders == 1 && r.Stats().Conns == 0 }, eternal, ms)
	require.Equal(t, "PONG\n", ask(t, r.dial(t), "PING\n"), "and nobody else was harmed")
}

func TestTooManyConnections(t *testing.T) {
	r := start(t, Config{Config: keepalive.Config{Room: keepalive.Room{MaxConns: 3}}})
	require.Equal(t, 3, r.Config().Room.MaxConns)
	var conns []net.Conn
	for range 3 {
		c := r.dial(t)
		require.Equal(t, "PONG\n", ask(t, c, "PING\n"))
		conns = append(conns, c)
	}
	for range 5 {
		require.Equal(t, "ERR too many connections\n", rest(t, r.dial(t)))
	}
	conns[0].Close()
	require.Eventually(t, func() bool { return r.Stats().Conns == 2 }, eternal, ms)
	require.Equal(t, "PONG\n", ask(t, r.dial(t), "PING\n"))
}

func TestGracefulShutdown(t *testing.T) {
	for name, end := range map[string]func(r *running) error{
		"context":  func(r *running) error { r.cancel(); return <-r.result },
		"shutdown": func(r *running) error { return errors.Join(r.Shutdown(context.Background()), <-r.result) },
	} {
		t.Run(name, func(t *testing.T) {
			r := start(t, Config{Loops: 2})
			conns := make([]net.Conn, 700)
			for i := range conns {
				conns[i] = r.dial(t)
				require.Equal(t, "PONG\n", ask(t, conns[i], "PING\n"))
			}
			require.NoError(t, end(r))
			for _, c := range conns {
				require.Equal(t, "BYE server shutting down\n", rest(t, c))
			}
			_, err := net.Dial("tcp", r.Addr().String())
			require.Error(t, err)
			require.NoError(t, r.Shutdown(context.Background()), "again")
			require.Error(t, r.Run(context.Background()), "once only")
		})
	}
}

func TestShutdownIsBounded(t *testing.T) {
	r := start(t, Config{})
	c := r.dial(t)
	require.Equal(t, "PONG\n", ask(t, c, "PING\n"))
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	err := r.Shutdown(ctx)
	if err != nil { // or the one connection was gone in no time
		require.ErrorIs(t, err, context.Canceled)
	}
	require.NoError(t, <-r.result)
	_ = rest(t, c)
}

func TestShutdownBeforeRun(t *testing.T) {
	s, err := New(Config{Addr: "127.0.0.1:0"})
	require.NoError(t, err)
	require.NoError(t, s.Shutdown(context.Background()))
	require.NoError(t, s.Shutdown(context.Background()))
	require.ErrorIs(t, s.Run(context.Background()), ErrClosed)
}

func TestContextThatIsDoneAlready(t *testing.T) {
	s, err := New(Config{Addr: "127.0.0.1:0"})
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	require.NoError(t, s.Run(ctx))
}

func TestTakenAddress(t *testing.T) {
	r := start(t, Config{})
	s, err := New(Config{Addr: r.Addr().String()})
	require.NoError(t, err)
	err = s.Run(context.Background())
	require.ErrorIs(t, err, syscall.EADDRINUSE)
	require.Contains(t, err.Error(), r.Addr().String())
	require.Equal(t, "PONG\n", ask(t, r.dial(t), "PING\n"), "the first one is not disturbed")
}

// However close together they start, one of two has the port.
func TestTwoServersThatStartTogether(t *testing.T) {
	for round := 0; round < 30; round++ {
		ln, err := net.Listen("tcp", "127.0.0.1:0")
		require.NoError(t, err)
		addr := ln.Addr().String()
		ln.Close()
		ctx, cancel := context.WithCancel(context.Background())
		type outcome struct {
			s   *Server
			err error
		}
		outcomes := make(chan outcome, 2)
		var both sync.WaitGroup
		for range 2 {
			s, err := New(Config{Addr: addr, Loops: 2})
			require.NoError(t, err)
			result := make(chan error, 1)
			both.Go(func() { result <- s.Run(ctx) })
			go func() {
				select {
				case <-s.Ready():
					outcomes <- outcome{s: s}
				case err := <-result:
					outcomes <- outcome{err: err}
				}
			}()
		}
		one, two := <-outcomes, <-outcomes
		if one.s == nil {
			one, two = two, one
		}
		if one.s == nil { // neither: somebody else must have it
			_, err := net.Listen("tcp", addr)
			require.ErrorIs(t, err, syscall.EADDRINUSE, "%v, %v", one.err, two.err)
			cancel()
			both.Wait()
			round--
			continue
		}
		require.ErrorIs(t, two.err, syscall.EADDRINUSE)
		c, err := net.Dial("tcp", addr)
		require.NoError(t, err)
		require.Equal(t, "PONG\n", ask(t, c, "PING\n"))
		c.Close()
		cancel()
		both.Wait()
	}
}

// Several calls of Shutdown at once say one goodbye.
func TestShutdownsAtOnce(t *testing.T) {
	r := start(t, Config{Loops: 2})
	conns := make([]net.Conn, 200)
	for i := range conns {
		conns[i] = r.dial(t)
		require.Equal(t, "PONG\n", ask(t, conns[i], "PING\n"))
	}
	var all sync.WaitGroup
	for range 4 {
		all.Go(func() { _ = r.Shutdown(context.Background()) })
	}
	r.cancel()
	all.Wait()
	require.NoError(t, <-r.result)
	for _, c := range conns {
		require.Equal(t, "BYE server shutting down\n", rest(t, c))
	}
}

func TestConnectionThatComesDuringShutdownIsRefused(t *testing.T) {
	r := start(t, Config{})
	require.NoError(t, r.keeper.Drain(context.Background(), 0))
	require.Equal(t, "ERR server shutting down\n", rest(t, r.dial(t)))
}

// idle is a server before any Run.
func idle(t testing.TB, cfg Config) *Server {
	s, err := New(cfg)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, s.Shutdown(context.Background())) })
	return s
}

func TestMaxConnsFitsIntoTheDescriptorLimit(t *testing.T) {
	limit, ok := rlimit.Files()
	require.True(t, ok)
	s := idle(t, Config{})
	require.LessOrEqual(t, s.Config().Room.MaxConns, limit-rlimit.MinSpare-perLoop*runtime.GOMAXPROCS(0)-rlimit.Open())
	require.Greater(t, s.Config().Room.MaxConns, limit*9/10)
	_, err := New(Config{Config: keepalive.Config{Room: keepalive.Room{MaxConns: limit}}})
	require.ErrorIs(t, err, ErrArgument)
	require.Contains(t, err.Error(), fmt.Sprintf("MaxConns %d: the process may have %d descriptors", limit, limit))
}

// gnet has at most 256 event loops, and a machine may have more processors.
func TestZeroConfigOnAMachineWithManyProcessors(t *testing.T) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(300))
	cfg, err := Config{}.withDefaults(0)
	require.NoError(t, err)
	require.Equal(t, 256, cfg.Loops)
}

func TestConfigErrorsNameTheValueAndTheLimit(t *testing.T) {
	for _, c := range []struct {
		cfg  Config
		want string
	}{
		{Config{Addr: "nonsense"}, `server: invalid argument: Addr "nonsense": address nonsense: missing port in address`},
		{Config{Addr: "localhost:99999"}, `server: invalid argument: Addr "localhost:99999": address 99999: invalid port`},
		{Config{Addr: ":nosuchport"}, `server: invalid argument: Addr ":nosuchport": lookup tcp/nosuchport: unknown port`},
		{Config{Config: keepalive.Config{Timeout: -1}}, "server: invalid argument: keepalive: invalid argument: Timeout -1ns, must be at least 1ms"},
		{Config{Config: keepalive.Config{Timeout: time.Second, Tick: time.Minute}}, "server: invalid argument: keepalive: invalid argument: Tick 1m0s is longer than Timeout 1s"},
		{Config{Config: keepalive.Config{Room: keepalive.Room{MaxConns: -1}}}, "server: invalid argument: Room.MaxConns -1, must not be negative"},
		{Config{MaxLine: -1}, "server: invalid argument: MaxLine -1, must not be negative"},
		{Config{MaxOutbound: -1}, "server: invalid argument: MaxOutbound -1, must not be negative"},
		{Config{Loops: -1}, "server: invalid argument: Loops -1, must not be negative"},
		{Config{Loops: 257}, "server: invalid argument: Loops 257, must be at most 256"},
		{Config{ShutdownTimeout: -1}, "server: invalid argument: ShutdownTimeout -1ns, must not be negative"},
		{Config{DrainDelay: -1}, "server: invalid argument: DrainDelay -1ns, must not be negative"},
		{Config{Drain: -1}, "server: invalid argument: Drain -1ns, must not be negative"},
		{
			Config{DrainDelay: 3 * time.Second, Drain: 8 * time.Second, ShutdownTimeout: 10 * time.Second},
			"server: invalid argument: ShutdownTimeout 10s, must not be less than DrainDelay 3s and Drain 8s together",
		},
		{
			Config{DrainDelay: math.MaxInt64, Drain: math.MaxInt64, ShutdownTimeout: time.Hour},
			"server: invalid argument: ShutdownTimeout 1h0m0s, must not be less than DrainDelay 2562047h47m16.854775807s and Drain 2562047h47m16.854775807s together",
		},
		{Config{Config: keepalive.Config{Activity: keepalive.ActivityKernel}}, "server: invalid argument: Activity kernel, must be manual: only whole lines are life"},
		{Config{Config: keepalive.Config{Room: keepalive.Room{Full: keepalive.FullWait}}}, "server: invalid argument: Room.Full wait, must be reject or evict: gnet accepts all connections"},
		{Config{Config: keepalive.Config{Room: keepalive.Room{Full: 7}}}, "server: invalid argument: keepalive: invalid argument: Room.Full 7, must be 0 to 2"},
		{Config{Config: keepalive.Config{Age: keepalive.Age{Max: -1}}}, "server: invalid argument: keepalive: invalid argument: Age.Max -1ns, must not be negative"},
		{Config{Config: keepalive.Config{Probe: keepalive.Probing{Count: 101}}}, "server: invalid argument: keepalive: invalid argument: Probe.Count 101, must be at most 100"},
		{Config{Listener: tls.NewListener(nil, nil)}, "server: invalid argument: Listener *tls.listener, must be a *net.TCPListener or a *net.UnixListener"},
		{Config{Listener: &net.TCPListener{}, Addr: ":1"}, `server: invalid argument: Addr ":1" and a Listener, must be one of them`},
	} {
		_, err := New(c.cfg)
		require.ErrorIs(t, err, ErrArgument)
		require.EqualError(t, err, c.want)
		require.EqualError(t, c.cfg.Validate(), c.want)
	}
	_, err := New(Config{Config: keepalive.Config{Timeout: -1}})
	require.ErrorIs(t, err, keepalive.ErrArgument)
}

// Lines of all lengths, from many at once, come back whole and in order.
func TestManyClientsPipelining(t *testing.T) {
	r := start(t, Config{Loops: 2})
	var wg sync.WaitGroup
	for id := range 20 {
		c := r.dial(t)
		wg.Go(func() {
			defer c.Close()
			go func() {
				w := bufio.NewWriterSize(c, 1000+id*97)
				for i := range 500 {
					fmt.Fprintf(w, "%d %d %s\n", id, i, strings.Repeat("q", i*i%3000))
				}
				_ = w.Flush()
			}()
			scanner := bufio.NewScanner(c)
			for i := range 500 {
				want := fmt.Sprintf("%d %d %s", id, i, strings.Repeat("q", i*i%3000))
				if !scanner.Scan() || scanner.Text() != want {
					t.Errorf("client %d line %d: %v", id, i, scanner.Err())
					return
				}
			}
		})
	}
	wg.Wait()
}
