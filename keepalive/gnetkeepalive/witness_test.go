package gnetkeepalive

import (
	"errors"
	"net"
	"os"
	"sync"
	"testing"
	"time"

	"github.com/panjf2000/gnet/v2"
	"github.com/stretchr/testify/require"

	"github.com/heartwheel-go/heartwheel/keepalive"
)

// witness is an engine with a Keeper. It notes the ends of the connections.
type witness struct {
	*engine
	app *app
	k   *keepalive.Keeper

	mu   sync.Mutex
	ends map[string]*ending // by the peer's address
}

// ending is how one connection has ended: all errors of the handler's OnClose and all reasons
// of the config's, since each must be told once.
type ending struct {
	errs    []error
	reasons []keepalive.Reason
	at      time.Time
}

// observe starts an engine on TCP with a Keeper. Both tell the witness. When the test is over,
// nothing must be left of its connections.
func observe(t testing.TB, cfg keepalive.Config, a *app, opts ...gnet.Option) *witness {
	return observeOn(t, "tcp://127.0.0.1:0", cfg, a, opts...)
}

func observeOn(t testing.TB, addr string, cfg keepalive.Config, a *app, opts ...gnet.Option) *witness {
	w := &witness{app: a, ends: make(map[string]*ending)}
	onClose, ended := cfg.OnClose, a.onClose
	cfg.OnClose = func(conn any, r keepalive.Reason) {
		w.note(conn.(gnet.Conn), func(e *ending) { e.reasons = append(e.reasons, r) })
		if onClose != nil {
			onClose(conn, r)
		}
	}
	a.onClose = func(c gnet.Conn, err error) gnet.Action {
		w.note(c, func(e *ending) { e.errs, e.at = append(e.errs, err), time.Now() })
		if ended != nil {
			return ended(c, err)
		}
		return gnet.None
	}
	w.k = newKeeper(t, cfg)
	w.engine = startOn(t, addr, a, w.k, opts...)
	t.Cleanup(func() { w.requireNothingLeft(t) })
	return w
}

func (w *witness) note(c gnet.Conn, add func(*ending)) {
	w.mu.Lock()
	defer w.mu.Unlock()
	peer := peerOf(c.RemoteAddr())
	if w.ends[peer] == nil {
		w.ends[peer] = new(ending)
	}
	add(w.ends[peer])
}

// endOf returns how the connection of a client has ended so far.
func (w *witness) endOf(c net.Conn) ending {
	w.mu.Lock()
	defer w.mu.Unlock()
	if e := w.ends[peerOf(c.LocalAddr())]; e != nil {
		return *e
	}
	return ending{}
}

// peerOf names a client by its address. Those of Unix sockets have none, so a test has
// only one.
func peerOf(addr net.Addr) string {
	if addr.Network() == "unix" {
		return "unix"
	}
	return addr.String()
}

// requireEnd waits for the end of a client's connection. It requires that the handler and
// OnClose have been told once, and why, and returns when the handler was told.
func (w *witness) requireEnd(t testing.TB, c net.Conn, reason keepalive.Reason) time.Time {
	t.Helper()
	require.Eventually(t, func() bool { return len(w.endOf(c).reasons) > 0 }, eternal, ms)
	end := w.endOf(c)
	require.Equal(t, []keepalive.Reason{reason}, end.reasons)
	require.Len(t, end.errs, 1)
	require.Positive(t, w.k.Stats().Closed[reason])
	switch err := end.errs[0]; reason {
	case keepalive.ReasonPeer:
		require.Error(t, err)
	case keepalive.ReasonLocal:
		require.NoError(t, err)
	default:
		require.ErrorIs(t, err, reason)
		require.ErrorIs(t, err, net.ErrClosed)
		require.Equal(t, reason.Timeout(), errors.Is(err, os.ErrDeadlineExceeded))
	}
	return end.at
}

// requireNothingLeft waits until the last connection has gone, and its loop with it.
func (w *witness) requireNothingLeft(t testing.TB) {
	require.Eventually(t, func() bool { return w.k.Len() == 0 }, eternal, ms, "no connection is left")
	require.Eventually(t, func() bool {
		l := w.app.loops
		l.mu.Lock()
		defer l.mu.Unlock()
		return len(l.of) == 0
	}, eternal, ms, "no loop is remembered")
	require.Eventually(t, func() bool { return w.app.opened.Load() == w.app.closed.Load() }, eternal, ms, "the handler hears of each end")
}

// keepSaying says a word for so long, eight times per timeout, and returns when it
// began to say the last one.
func keepSaying(t testing.TB, c net.Conn, d time.Duration) (last time.Time) {
	t.Helper()
	last, silent, err := saidFor(c, d)
	require.NoError(t, err, "after a silence of %v", silent)
	return last
}

// saidFor is keepSaying without its requirement. It returns its own longest silence, too.
func saidFor(c net.Conn, d time.Duration) (last time.Time, silent time.Duration, err error) {
	begin := time.Now()
	for last = begin; err == nil && time.Since(begin) < d; {
		time.Sleep(beat)
		silent = max(silent, time.Since(last))
		last = time.Now()
		err = saying(c, "beat")
	}
	return last, silent, err
}

// where returns the server's side of connections, in the order of their opening.
func where(a *app) <-chan gnet.Conn {
	conns := make(chan gnet.Conn, 100)
	inner := a.onOpen
	a.onOpen = func(c gnet.Conn) ([]byte, gnet.Action) {
		conns <- c
		if inner != nil {
			return inner(c)
		}
		return nil, gnet.None
	}
	return conns
}

// answeredLate returns a connection whose request waits for a busy event loop. The loop goes on just after last,
// when the connection has been silent for so long.
func answeredLate(t *testing.T, k *keepalive.Keeper, silent time.Duration) (c net.Conn, last time.Time) {
	a, busy, release := blocking()
	conns := where(a)
	e := start(t, a, k, gnet.WithNumEventLoop(1))
	c, blocker := e.dial(t), e.dial(t)
	say(t, c, "hello")
	guard := keepalive.Of(<-conns)
	_, err := blocker.Write([]byte("block"))
	require.NoError(t, err)
	<-busy
	_, err = c.Write([]byte("a request"))
	require.NoError(t, err)
	require.Eventually(t, func() bool {
		info, _ := guard.Info()
		return info.Idle >= silent // as the Keeper counts time
	}, eternal, ms)
	last = time.Now()
	release <- true
	return c, last
}

// blocking returns an echo handler. Each "block" keeps its event loop busy, from a value of busy to one of
// release.
func blocking() (a *app, busy <-chan bool, release chan<- bool) {
	begun, over := make(chan bool), make(chan bool)
	a = &app{onTraffic: func(c gnet.Conn) gnet.Action {
		if buf, _ := c.Peek(-1); string(buf) == "block" {
			begun <- true
			<-over
		}
		return echo(c)
	}}
	return a, begun, over
}
