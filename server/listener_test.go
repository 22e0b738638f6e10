package server

import (
	"context"
	"errors"
	"io"
	"net"
	"path/filepath"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/heartwheel-go/heartwheel/keepalive"
)

func listen(t testing.TB) *net.TCPListener {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	t.Cleanup(func() { ln.Close() })
	return ln.(*net.TCPListener)
}

// startOn starts a server on a socket opened by somebody else.
func startOn(t testing.TB, ln net.Listener, cfg Config) *running {
	cfg.Listener = ln
	return start(t, cfg)
}

// Every promise of Addr holds for a Listener.
func TestListener(t *testing.T) {
	ln := listen(t)
	r := startOn(t, ln, Config{Loops: 3, MaxLine: 100, Config: keepalive.Config{Timeout: timeout, Tick: 10 * ms, Room: keepalive.Room{MaxConns: 20}}})
	require.Equal(t, ln.Addr(), r.Addr())
	begin := time.Now()
	silent := r.dial(t)
	var conns []net.Conn
	for range 19 {
		c := r.dial(t)
		require.Equal(t, "PONG 1\r\n", ask(t, c, "PING 1\r\n"))
		conns = append(conns, c)
	}
	require.Equal(t, refusedFull, rest(t, r.dial(t)))
	loops := 0
	for range r.loops.Range {
		loops++
	}
	require.Equal(t, 3, loops, "they are shared out")
	require.NoError(t, r.Health(context.Background()))

	require.Equal(t, byeIdle, rest(t, silent))
	require.GreaterOrEqual(t, time.Since(begin), timeout)
	c := r.dial(t)
	long := make([]byte, 300<<10)
	go func() { _, _ = c.Write(long) }()
	require.Equal(t, "ERR line too long\n", rest(t, c))
	c.Close()
	for _, c := range conns {
		require.Equal(t, byeIdle, rest(t, c))
	}
	require.Eventually(t, func() bool { return r.Stats().Conns == 0 }, eternal, ms)
	require.EqualValues(t, 20, r.Stats().Closed[keepalive.ReasonIdle])
	require.EqualValues(t, 1, r.Stats().RefusedFull)
}

func TestUnixListener(t *testing.T) {
	path := filepath.Join(t.TempDir(), "socket")
	ln, err := net.Listen("unix", path)
	require.NoError(t, err)
	startOn(t, ln, Config{Config: keepalive.Config{Timeout: timeout, Tick: 10 * ms, Room: keepalive.Room{MaxPerKey: 1}}})
	for range 3 { // they have no address to be counted by
		c, err := net.Dial("unix", path)
		require.NoError(t, err)
		defer c.Close()
		require.NoError(t, c.SetDeadline(time.Now().Add(eternal)))
		require.Equal(t, "hello\n", ask(t, c, "hello\n"))
		defer func() { require.Equal(t, byeIdle, rest(t, c)) }()
	}
}

// Somebody else has the socket too, as systemd has: nobody is turned away while one
// server follows the other.
func TestListenerIsLeftToTheNext(t *testing.T) {
	ln := listen(t)
	file, err := ln.File()
	require.NoError(t, err)
	defer file.Close()
	r := startOn(t, ln, Config{Loops: 2, Drain: 300 * ms, Config: keepalive.Config{Tick: 10 * ms}})
	conns := make([]net.Conn, 50)
	for i := range conns {
		conns[i] = r.dial(t)
		require.Equal(t, "PONG\n", ask(t, conns[i], "PING\n"))
	}
	r.cancel()
	require.Eventually(t, func() bool { return r.Keeper().Stats().Draining }, eternal, ms)
	between := r.dial(t) // waits in the kernel
	require.NoError(t, <-r.result)
	for _, c := range conns {
		require.Equal(t, "BYE server shutting down\n", rest(t, c))
	}

	again, err := net.FileListener(file)
	require.NoError(t, err)
	startOn(t, again, Config{})
	require.Equal(t, "PONG\n", ask(t, between, "PING\n"))
}

// While connections come as fast as they can, each gets an answer, a goodbye, or is
// refused, when the server ends: none is left open without an owner.
func TestListenerEndsWhileConnectionsCome(t *testing.T) {
	for range 5 {
		ln := listen(t)
		r := startOn(t, ln, Config{Loops: 2})
		stop := make(chan struct{})
		var clients sync.WaitGroup
		for range 8 {
			clients.Go(func() {
				for {
					select {
					case <-stop:
						return
					default:
					}
					c, err := net.Dial("tcp", ln.Addr().String())
					if err != nil {
						continue
					}
					_ = c.SetDeadline(time.Now().Add(eternal))
					_, _ = io.WriteString(c, "PING\nQUIT\n")
					if _, err := io.ReadAll(c); errors.Is(err, syscall.ETIMEDOUT) || isTimeout(err) {
						t.Error("a connection is left open")
					}
					c.Close()
				}
			})
		}
		require.Eventually(t, func() bool { return r.Stats().Closed[keepalive.ReasonLocal] > 200 }, eternal, ms)
		r.cancel()
		require.NoError(t, <-r.result)
		close(stop)
		clients.Wait()
	}
}

// A connection accepted before the goodbyes gets one, however long the loop takes to have it.
func TestListenerWaitsForWhatWasAccepted(t *testing.T) {
	entered, leave := make(chan struct{}), make(chan struct{})
	r := startOn(t, listen(t), Config{Loops: 1, Config: keepalive.Config{Room: keepalive.Room{MaxPerKey: 9, Key: func(net.Addr) string { close(entered); <-leave; return "" }}}})
	c := r.dial(t)
	<-entered
	r.cancel()
	require.Eventually(t, r.Draining, eternal, ms)
	time.Sleep(20 * ms) // for what would go wrong
	require.False(t, r.Keeper().Stats().Draining)
	close(leave)
	require.Equal(t, "BYE server shutting down\n", rest(t, c))
	require.NoError(t, <-r.result)
}

func isTimeout(err error) bool {
	var ne net.Error
	return errors.As(err, &ne) && ne.Timeout()
}

func TestListenerThatIsClosedByItsOwner(t *testing.T) {
	ln := listen(t)
	r := startOn(t, ln, Config{})
	c := r.dial(t)
	require.Equal(t, "PONG\n", ask(t, c, "PING\n"))
	ln.Close()
	err := <-r.result
	require.ErrorIs(t, err, net.ErrClosed)
	require.NotErrorIs(t, err, ErrStopped)
}

func TestListenerOfAServerThatNeverRuns(t *testing.T) {
	ln := listen(t)
	s := idle(t, Config{Listener: ln})
	require.NoError(t, s.Shutdown(context.Background()))
	_, err := ln.Accept()
	require.ErrorIs(t, err, net.ErrClosed)
}

func TestEvictionOnAListener(t *testing.T) {
	ln := listen(t)
	r := startOn(t, ln, Config{Config: keepalive.Config{Tick: 10 * ms, Timeout: time.Minute, Room: keepalive.Room{MaxConns: 1, Full: keepalive.FullEvict, MinIdle: 10 * ms}}})
	first := r.dial(t)
	require.Equal(t, "PONG\n", ask(t, first, "PING\n"))
	time.Sleep(50 * ms)
	r.getRoom(t)
	require.Equal(t, "BYE closed to make room\n", rest(t, first))
}
