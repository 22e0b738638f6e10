package gnetkeepalive

import (
	"bytes"
	"log/slog"
	"net"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/panjf2000/gnet/v2"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/heartwheel-go/heartwheel/keepalive"
)

func newKernelKeeper(t testing.TB, cfg keepalive.Config) *keepalive.Keeper {
	cfg.Activity = keepalive.ActivityKernel
	return newKeeper(t, cfg)
}

func TestKernelKnowsWithoutOnTraffic(t *testing.T) {
	t.Parallel()
	modes(t, func(t *testing.T, opts ...gnet.Option) {
		k := newKernelKeeper(t, keepalive.Config{})
		a := &app{}
		a.booted = make(chan booted, 1)
		h := Wrap(a, k)
		e := run(t, "tcp://127.0.0.1:0", a, h, opts...)
		live, silent := e.dial(t), e.dial(t)
		begin := time.Now()
		say(t, silent, "hello")
		var last time.Time
		for range 24 { // three timeouts
			time.Sleep(beat)
			last = time.Now()
			say(t, live, "beat")
		}
		require.GreaterOrEqual(t, requireClosed(t, silent).Sub(begin), timeout)
		require.EqualValues(t, 1, k.Stats().Closed[keepalive.ReasonIdle])
		require.GreaterOrEqual(t, requireClosed(t, live).Sub(last), timeout)
	})
}

func TestKernelUnixSocketsAreKeptByReading(t *testing.T) {
	t.Parallel()
	var mu sync.Mutex
	var log bytes.Buffer
	k := newKernelKeeper(t, keepalive.Config{Logger: slog.New(slog.NewTextHandler(writerFunc(func(p []byte) (int, error) {
		mu.Lock()
		defer mu.Unlock()
		return log.Write(p)
	}), nil))})
	a := &app{}
	unix := startOn(t, "unix://"+filepath.Join(t.TempDir(), "s"), a, k)
	for range 2 {
		c := unix.dial(t)
		var last time.Time
		for range 16 {
			time.Sleep(beat)
			last = time.Now()
			say(t, c, "beat")
		}
		require.GreaterOrEqual(t, requireClosed(t, c).Sub(last), timeout)
	}
	mu.Lock()
	defer mu.Unlock()
	require.Equal(t, 1, strings.Count(log.String(), "as with ActivityRead"), log.String())
}

type writerFunc func(p []byte) (int, error)

func (f writerFunc) Write(p []byte) (int, error) { return f(p) }

func TestKernelTouchByHand(t *testing.T) {
	t.Parallel()
	k := newKernelKeeper(t, keepalive.Config{})
	conns := make(chan gnet.Conn, 1)
	e := start(t, &app{onOpen: func(c gnet.Conn) ([]byte, gnet.Action) { conns <- c; return nil, gnet.None }}, k)
	c := e.dial(t)
	conn := <-conns
	var last time.Time
	for range 20 {
		time.Sleep(beat)
		last = time.Now()
		require.True(t, keepalive.Touch(conn))
	}
	require.GreaterOrEqual(t, requireClosed(t, c).Sub(last), timeout)
	require.False(t, keepalive.Touch(conn))
}

// The loop is busy for longer than the timeout. The peer has waited for its answer,
// and has a timeout for what it says next.
func TestKernelBusyLoopKillsNobody(t *testing.T) {
	t.Parallel()
	k := newKernelKeeper(t, keepalive.Config{Timeout: timeout, Tick: timeout / 8})
	c, last := answeredLate(t, k, 7*timeout/2)
	require.GreaterOrEqual(t, requireClosed(t, c).Sub(last), timeout)
}

// A decision finds a request unread, and its arrival becomes the last touch. Then the loop is busy for
// longer than the timeout, and reads the request only after that.
func TestKernelUnreadAtALookAndThenABusyLoop(t *testing.T) {
	t.Parallel()
	for range 20 {
		if requestOutlastsABusyLoop(t) {
			return
		}
	}
	t.Fatal("the loop has never left the request unread, and decided then")
}

// requestOutlastsABusyLoop reports whether the loop did what the test is about.
func requestOutlastsABusyLoop(t *testing.T) bool {
	k := newKernelKeeper(t, keepalive.Config{Timeout: timeout, Tick: ms})
	a, busy, release := blocking()
	conns := where(a)
	e := start(t, a, k, gnet.WithNumEventLoop(1))
	c, first, second, third := e.dial(t), e.dial(t), e.dial(t), e.dial(t)
	conn := <-conns
	for range 3 { // to open them is a task of the loop, too
		<-conns
	}
	guard := keepalive.Of(conn)
	idle := func(d time.Duration) {
		require.Eventually(t, func() bool {
			info, _ := guard.Info()
			return info.Idle >= d // as the Keeper counts time
		}, eternal, ms)
	}
	write := func(c net.Conn, s string) {
		_, err := c.Write([]byte(s))
		require.NoError(t, err)
	}
	write(first, "block")
	<-busy
	write(second, "block")
	idle(timeout + beat) // the decision waits for the loop
	release <- true
	<-busy // with second, and the decision comes behind it
	write(third, "block")
	write(c, "a request")
	time.Sleep(100 * ms) // the kernel's clock can't have been behind by so much
	release <- true
	<-busy // with third
	info, open := guard.Info()
	unread, _ := unix.IoctlGetInt(conn.Fd(), unix.TIOCINQ)
	if !open || info.Idle > timeout || unread == 0 {
		release <- true
		return false
	}
	idle(7 * timeout / 2)
	last := time.Now()
	release <- true
	require.GreaterOrEqual(t, requireClosed(t, c).Sub(last), timeout)
	return true
}

// Even a busy loop closes its dead connections.
func TestKernelBusyLoopKeepsNobody(t *testing.T) {
	t.Parallel()
	k := newKernelKeeper(t, keepalive.Config{Timeout: timeout, Tick: timeout / 8})
	e := start(t, &app{onTraffic: func(c gnet.Conn) gnet.Action {
		time.Sleep(10 * ms)
		return echo(c)
	}}, k, gnet.WithNumEventLoop(1))
	dead := e.dial(t)
	say(t, dead, "hello")
	for range 30 { // each round of the loop takes 300ms
		c := e.dial(t)
		go func() {
			for buf := make([]byte, 100); ; {
				if _, err := c.Write([]byte("x")); err != nil {
					return
				}
				if _, err := c.Read(buf); err != nil {
					return
				}
			}
		}()
	}
	requireClosed(t, dead)
	require.Positive(t, k.Stats().Closed[keepalive.ReasonIdle])
}
