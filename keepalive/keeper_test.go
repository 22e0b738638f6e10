package keepalive

import (
	"bytes"
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math"
	"net"
	"os"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/heartwheel-go/heartwheel/internal/logtest"
)

const ms = time.Millisecond

func newKeeper(t testing.TB, cfg Config) *Keeper {
	k, err := New(cfg)
	require.NoError(t, err)
	opened.Store(k, time.Duration(overslept.Load()))
	t.Cleanup(func() {
		require.NoError(t, k.Close())
		opened.Delete(k)
	})
	return k
}

// opened has what was overslept when a Keeper was made.
var opened sync.Map

// closings is what OnClose was told.
type closings struct {
	mu   sync.Mutex
	told []closing
}

type closing struct {
	conn   any
	reason Reason
}

func (c *closings) add(conn any, reason Reason) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.told = append(c.told, closing{conn, reason})
}

func (c *closings) list() []closing {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Clone(c.told)
}

// pipe returns a guarded connection and its peer.
func pipe(k *Keeper) (guarded, peer net.Conn) {
	a, b := net.Pipe()
	return k.Conn(a), b
}

func requireIdleTimeout(t testing.TB, err error) {
	t.Helper()
	require.ErrorIs(t, err, ErrIdleTimeout)
	require.ErrorIs(t, err, os.ErrDeadlineExceeded)
	require.ErrorIs(t, err, net.ErrClosed)
	var ne net.Error
	require.ErrorAs(t, err, &ne)
	require.True(t, ne.Timeout())
	require.False(t, ne.Temporary()) //nolint:staticcheck // it is part of net.Error
	require.Contains(t, err.Error(), "keepalive: idle timeout")
}

func TestSilentConnectionIsClosedOnTime(t *testing.T) {
	for _, timeout := range []time.Duration{10 * ms, time.Second, 30 * time.Second, time.Hour} {
		t.Run(timeout.String(), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var c closings
				k := newKeeper(t, Config{Timeout: timeout, OnClose: c.add})
				start := time.Now()
				conn, peer := pipe(k)
				require.Equal(t, 1, k.Len())
				_, err := conn.Read(make([]byte, 10))
				after := time.Since(start)
				requireIdleTimeout(t, err)
				require.GreaterOrEqual(t, after, timeout)
				require.LessOrEqual(t, after, timeout+2*k.sleep)

				_, err = conn.Write([]byte("x"))
				requireIdleTimeout(t, err)
				_, err = peer.Read(make([]byte, 10))
				require.ErrorIs(t, err, io.EOF, "the peer sees a close")
				require.False(t, Touch(conn))
				require.False(t, Touch(conn))
				require.NoError(t, conn.Close())
				require.NoError(t, conn.Close())
				synctest.Wait()
				require.Equal(t, []closing{{conn, ReasonIdle}}, c.list())
				require.Zero(t, k.Len())
				require.EqualValues(t, 1, k.Stats().Closed[ReasonIdle])
			})
		})
	}
}

func TestWhatIsReadKeepsTheConnection(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := newKeeper(t, Config{Timeout: time.Second})
		conn, peer := pipe(k)
		go func() {
			for range 20 {
				time.Sleep(time.Second - 1)
				_, _ = peer.Write([]byte("x"))
			}
		}()
		n, err := io.Copy(io.Discard, conn)
		requireIdleTimeout(t, err)
		require.EqualValues(t, 20, n)
	})
}

func TestActivity(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for _, c := range []struct {
			activity                   Activity
			byRead, byWrite, byMessage bool
		}{
			{ActivityRead, true, false, true},
			{ActivityReadWrite, true, true, true},
			{ActivityManual, false, false, true},
			{ActivityKernel, true, false, true}, // of a pipe
		} {
			if c.activity.check() != nil {
				continue
			}
			k := newKeeper(t, Config{Timeout: time.Second, Activity: c.activity})
			require.Equal(t, c.activity, k.Config().Activity)
			for what, lives := range map[string]bool{"read": c.byRead, "write": c.byWrite, "touch": c.byMessage} {
				conn, peer := pipe(k)
				for i := range 4 {
					time.Sleep(600 * ms)
					synctest.Wait()
					if i > 1 && !lives {
						break
					}
					switch what {
					case "read":
						go func() { _, _ = peer.Write([]byte("x")) }()
						_, _ = conn.Read(make([]byte, 1))
					case "write":
						go func() { _, _ = peer.Read(make([]byte, 1)) }()
						_, _ = conn.Write([]byte("x"))
					case "touch":
						Touch(conn)
					}
				}
				require.Equal(t, lives, Touch(conn), "%v, %s", c.activity, what)
				conn.Close()
				peer.Close()
			}
		}
	})
}

func TestTouchFindsTheGuardThroughLayers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := newKeeper(t, Config{Timeout: time.Second, Activity: ActivityManual})
		conn, peer := pipe(k)
		defer peer.Close()
		defer conn.Close()
		overTLS := tls.Server(conn, &tls.Config{MinVersion: tls.VersionTLS12})
		inLoop := &fakeLoopConn{ctx: conn}
		for range 5 {
			time.Sleep(900 * ms)
			require.True(t, Touch(overTLS))
			time.Sleep(900 * ms)
			require.True(t, Touch(inLoop))
			require.True(t, Touch(tls.Client(overTLS, &tls.Config{MinVersion: tls.VersionTLS12})))
		}
		self := &selfConn{}
		self.Conn = self
		for _, stranger := range []any{nil, 5, "conn", peer, &fakeLoopConn{}, (*fakeLoopConn)(nil), self} {
			require.False(t, Touch(stranger))
			require.False(t, Touch(stranger))
		}
	})
}

// fakeLoopConn has what a gnet.Conn has for Touch.
type fakeLoopConn struct{ ctx any }

func (c *fakeLoopConn) SafeContext() any {
	if c == nil {
		return nil
	}
	return c.ctx
}

// selfConn claims to be inside itself.
type selfConn struct{ net.Conn }

func (c *selfConn) NetConn() net.Conn { return c.Conn }

func TestDeadlinesAreTheUsers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, b := net.Pipe()
		defer b.Close()
		inner := &deadlineSpy{Conn: a}
		k := newKeeper(t, Config{Timeout: time.Second})
		conn := k.Conn(inner)
		go func() { _, _ = b.Write([]byte("x")) }()
		_, err := conn.Read(make([]byte, 1))
		require.NoError(t, err)
		Touch(conn)
		require.NoError(t, conn.SetReadDeadline(time.Now().Add(300*ms)))
		_, err = conn.Read(make([]byte, 1))
		require.ErrorIs(t, err, os.ErrDeadlineExceeded)
		require.NotErrorIs(t, err, ErrIdleTimeout, "that was the user's own")
		require.NoError(t, conn.SetWriteDeadline(time.Time{}))
		require.NoError(t, conn.SetDeadline(time.Time{}))
		_, err = conn.Read(make([]byte, 1))
		requireIdleTimeout(t, err)
		require.Equal(t, "read write both ", inner.calls, "none but the user's")
	})
}

type deadlineSpy struct {
	net.Conn
	calls string
}

func (c *deadlineSpy) SetReadDeadline(t time.Time) error {
	c.calls += "read "
	return c.Conn.SetReadDeadline(t)
}

func (c *deadlineSpy) SetWriteDeadline(t time.Time) error {
	c.calls += "write "
	return c.Conn.SetWriteDeadline(t)
}

func (c *deadlineSpy) SetDeadline(t time.Time) error {
	c.calls += "both "
	return c.Conn.SetDeadline(t)
}

func TestReasons(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var c closings
		k := newKeeper(t, Config{Timeout: time.Second, OnClose: c.add})
		local, peer := pipe(k)
		defer peer.Close()
		require.NoError(t, local.Close())
		_, err := local.Read(make([]byte, 1))
		require.ErrorIs(t, err, io.ErrClosedPipe)
		require.NotErrorIs(t, err, ErrIdleTimeout)
		_ = local.Close()

		left, peer := pipe(k)
		peer.Close()
		_, err = left.Read(make([]byte, 1))
		require.ErrorIs(t, err, io.EOF)
		require.NoError(t, left.Close())
		require.Equal(t, []closing{{local, ReasonLocal}, {left, ReasonPeer}}, c.list())
		require.Zero(t, k.Len())
		s := k.Stats()
		require.EqualValues(t, 1, s.Closed[ReasonLocal])
		require.EqualValues(t, 1, s.Closed[ReasonPeer])
		require.Equal(t, "local peer idle full Reason(0) Reason(99)",
			ReasonLocal.String()+" "+ReasonPeer.String()+" "+ReasonIdle.String()+" "+ReasonFull.String()+" "+Reason(0).String()+" "+Reason(99).String())
	})
}

func TestOnIdleMayExtend(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var asked atomic.Int64
		k := newKeeper(t, Config{Timeout: time.Second, OnIdle: func(conn any, _ Reason) Verdict {
			if _, ok := conn.(net.Conn); !ok {
				t.Errorf("%T", conn)
			}
			if asked.Add(1) == 1 {
				return Extend(time.Minute)
			}
			return Extend(-5) // as good as Close
		}})
		start := time.Now()
		conn, peer := pipe(k)
		defer peer.Close()
		_, err := conn.Read(make([]byte, 1))
		requireIdleTimeout(t, err)
		require.EqualValues(t, 2, asked.Load())
		require.GreaterOrEqual(t, time.Since(start), 61*time.Second)
		require.LessOrEqual(t, time.Since(start), 61*time.Second+500*ms)
	})
}

func TestTouchWhileOnIdleIsAskedSavesTheConnection(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var k *Keeper
		var asked atomic.Int64
		k = newKeeper(t, Config{Timeout: time.Second, OnIdle: func(conn any, _ Reason) Verdict {
			if asked.Add(1) < 10 {
				require.True(t, Touch(conn))
			}
			return Close
		}})
		start := time.Now()
		conn, peer := pipe(k)
		defer peer.Close()
		_, err := conn.Read(make([]byte, 1))
		requireIdleTimeout(t, err)
		require.GreaterOrEqual(t, time.Since(start), 10*time.Second)
	})
}

// OnIdle takes longer than a timeout, and meanwhile the peer speaks, and falls
// silent again.
func TestOnIdleIsAskedOnceAtATime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var asked, atOnce atomic.Int64
		k := newKeeper(t, Config{Timeout: time.Second, OnIdle: func(any, Reason) Verdict {
			asked.Add(1)
			require.EqualValues(t, 1, atOnce.Add(1))
			defer atOnce.Add(-1)
			time.Sleep(5 * time.Second)
			return Close
		}})
		conn, peer := pipe(k)
		defer peer.Close()
		time.Sleep(2 * time.Second)
		require.EqualValues(t, 1, asked.Load())
		require.True(t, Touch(conn))
		time.Sleep(4500 * ms) // silent since, and its first OnIdle has said Close
		require.EqualValues(t, 2, asked.Load())
		require.Equal(t, 1, k.Len(), "that verdict was about another silence")
		time.Sleep(5 * time.Second)
		require.Zero(t, k.Len())
	})
}

// slowToClose is a connection with a blocking Close, as with SO_LINGER or in TLS with a
// vanished peer.
type slowToClose struct{ net.Conn }

func (c slowToClose) Close() error {
	time.Sleep(3 * time.Second)
	return c.Conn.Close()
}

func TestSlowClosesHoldUpNobody(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var closed closings
		k := newKeeper(t, Config{Timeout: time.Second, OnClose: closed.add})
		for range 64 {
			a, b := net.Pipe()
			defer b.Close()
			conn := k.Conn(slowToClose{a})
			go func() { _, _ = conn.Read(make([]byte, 1)) }()
		}
		time.Sleep(6 * time.Second)
		require.Len(t, closed.list(), 64)
	})
}

// homeless is a connection without addresses after Close.
type homeless struct {
	net.Conn
	closed atomic.Bool
}

func (c *homeless) Close() error { c.closed.Store(true); return c.Conn.Close() }

func (c *homeless) LocalAddr() net.Addr {
	if c.closed.Load() {
		return nil
	}
	return c.Conn.LocalAddr()
}

func (c *homeless) RemoteAddr() net.Addr { return c.LocalAddr() }

func TestConnectionWithoutAddresses(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := newKeeper(t, Config{Timeout: time.Second})
		a, b := net.Pipe()
		defer b.Close()
		conn := k.Conn(&homeless{Conn: a})
		_, err := conn.Read(make([]byte, 1))
		requireIdleTimeout(t, err)
		require.NoError(t, conn.Close(), "closed already")
	})
}

func TestPanicsInCallbacksHarmNobody(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log logtest.Log
		k := newKeeper(t, Config{
			Timeout: time.Second,
			OnIdle:  func(any, Reason) Verdict { panic("idle") },
			OnClose: func(any, Reason) { panic("close") },
			Logger:  log.Logger(slog.LevelDebug),
		})
		for range 3 {
			conn, peer := pipe(k)
			_, err := conn.Read(make([]byte, 1))
			requireIdleTimeout(t, err)
			peer.Close()
		}
		synctest.Wait()
		require.Equal(t, 3, strings.Count(log.String(), `panic="OnIdle: idle"`), log.String())
		require.Equal(t, 3, strings.Count(log.String(), `panic="OnClose: close"`))
		require.Contains(t, log.String(), "keeper_test.go")
		require.EqualValues(t, 6, k.Stats().Panics)
	})
}

func TestCloseLeavesConnectionsOpenAndUnguarded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := newKeeper(t, Config{
			Timeout: time.Second,
			OnIdle:  func(any, Reason) Verdict { t.Error("OnIdle"); return Close },
			OnClose: func(any, Reason) { t.Error("OnClose") },
		})
		conn, peer := pipe(k)
		defer peer.Close()
		require.NoError(t, k.Close())
		require.NoError(t, k.Close())
		time.Sleep(time.Minute)
		require.False(t, Touch(conn))
		require.Zero(t, k.Len())
		go func() { _, _ = peer.Write([]byte("x")) }()
		n, err := conn.Read(make([]byte, 1))
		require.NoError(t, err)
		require.Equal(t, 1, n)
		require.NoError(t, conn.Close())

		bare, peer2 := net.Pipe()
		defer peer2.Close()
		require.Same(t, bare, k.Conn(bare))
		ln := k.Listener(&pipeListener{conns: make(chan net.Conn, 1)})
		ln.(*listener).inner.(*pipeListener).conns <- bare
		got, err := ln.Accept()
		require.NoError(t, err)
		require.Same(t, bare, got)
		require.NoError(t, bare.Close())
	})
}

// pipeListener gives connections to Accept without a network.
type pipeListener struct {
	conns chan net.Conn
	errs  chan error
}

func (l *pipeListener) Accept() (net.Conn, error) {
	select {
	case c, ok := <-l.conns:
		if !ok {
			return nil, net.ErrClosed
		}
		return c, nil
	case err := <-l.errs:
		return nil, err
	}
}

func (l *pipeListener) Close() error   { close(l.conns); return nil }
func (l *pipeListener) Addr() net.Addr { return &net.UnixAddr{Name: "pipe"} }

func TestListener(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := newKeeper(t, Config{Timeout: time.Second})
		inner := &pipeListener{conns: make(chan net.Conn, 10), errs: make(chan error, 10)}
		ln := k.Listener(inner)
		require.Equal(t, "pipe", ln.Addr().String())
		require.Same(t, inner, ln.(interface{ NetListener() net.Listener }).NetListener())

		temporary := &net.OpError{Op: "accept", Err: errors.New("too many open files")}
		inner.errs <- temporary
		_, err := ln.Accept()
		require.Same(t, temporary, err, "as it is")

		a, peer := net.Pipe()
		inner.conns <- a
		conn, err := ln.Accept()
		require.NoError(t, err)
		require.Equal(t, 1, k.Len(), "guarded before anybody has said a word")
		require.Same(t, a, conn.(interface{ NetConn() net.Conn }).NetConn())

		go func() {
			time.Sleep(300 * ms)
			ln.Close()
		}()
		_, err = ln.Accept()
		require.ErrorIs(t, err, net.ErrClosed, "Close wakes Accept")
		require.True(t, Touch(conn), "and closes no connection")
		go func() { _, _ = peer.Write([]byte("x")) }()
		_, err = conn.Read(make([]byte, 1))
		require.NoError(t, err)
		conn.Close()
		peer.Close()
	})
}

func TestMaxConns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var c closings
		k := newKeeper(t, Config{Timeout: time.Second, Room: Room{MaxConns: 1}, OnClose: c.add})
		inner := &pipeListener{conns: make(chan net.Conn, 10)}
		ln := k.Listener(inner)
		a, peerA := net.Pipe()
		b, peerB := net.Pipe()
		d, peerD := net.Pipe()
		inner.conns <- a
		first, err := ln.Accept()
		require.NoError(t, err)

		full := k.Conn(b)
		_, err = full.Read(make([]byte, 1))
		require.ErrorIs(t, err, ReasonFull)
		_, err = full.Write([]byte("x"))
		require.ErrorIs(t, err, ReasonFull)
		require.False(t, Touch(full))
		require.NoError(t, full.Close())
		_, err = peerB.Read(make([]byte, 1))
		require.ErrorIs(t, err, io.EOF)

		inner.conns <- d
		go func() {
			_, err := peerD.Read(make([]byte, 1))
			if !errors.Is(err, io.EOF) {
				t.Errorf("one too many: %v", err)
			}
			first.Close()
			e, peerE := net.Pipe()
			peerE.Close()
			inner.conns <- e
		}()
		next, err := ln.Accept() // closes d and waits for e
		require.NoError(t, err)
		require.Equal(t, 1, k.Len())
		require.EqualValues(t, 2, k.Stats().RefusedFull)
		next.Close()
		peerA.Close()
		require.Equal(t, []closing{{first, ReasonLocal}, {next, ReasonLocal}}, c.list())
	})
}

func TestConnIsNotGuardedTwice(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := newKeeper(t, Config{})
		conn, peer := pipe(k)
		defer peer.Close()
		require.Same(t, conn, k.Conn(conn))
		other := newKeeper(t, Config{Timeout: time.Second})
		both := other.Conn(conn)
		require.NotSame(t, conn, both)
		_, err := both.Read(make([]byte, 1))
		requireIdleTimeout(t, err)
		require.Zero(t, k.Len(), "the outer closes the inner")
	})
}

// idleOf returns how long a connection has been idle.
func idleOf(g *Guard) time.Duration {
	info, _ := g.Info()
	return info.Idle
}

func TestGuards(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := newKeeper(t, Config{Timeout: time.Minute})
		var conns []any
		for range 10 {
			conn, peer := pipe(k)
			conns = append(conns, conn)
			defer peer.Close()
			defer conn.Close()
			time.Sleep(time.Second)
		}
		Touch(conns[0])
		for range k.Guards() {
			break
		}
		guards := slices.SortedFunc(k.Guards(), func(a, b *Guard) int { return cmp.Compare(idleOf(b), idleOf(a)) })
		require.Len(t, guards, 10)
		for i, g := range guards {
			require.Same(t, conns[(i+1)%10], g.Conn(), "the idlest first, and the touched one last")
			require.Same(t, k, g.Keeper())
		}
		require.Nil(t, new(Guard).Conn())
		require.Nil(t, (*Guard)(nil).Conn())
		require.Nil(t, new(Guard).Keeper())
		require.Nil(t, (*Guard)(nil).Keeper())
	})
}

func TestLostGuardIsNotClosed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := newKeeper(t, Config{Timeout: time.Second})
		g := new(Guard)
		conn := &fakeLoopConn{ctx: "something of the user's, where the guard was"}
		require.NoError(t, k.admit(g, conn, nil, nil))
		require.ErrorIs(t, k.Bind(g, conn, nil, nil), ErrArgument, "twice")
		time.Sleep(2 * time.Second)
		synctest.Wait()
		require.Zero(t, k.Len())
		require.Zero(t, k.Stats().Closed[ReasonIdle])
	})
}

func TestConfigErrorsNameTheValuesAndTheLimit(t *testing.T) {
	for _, c := range []struct {
		cfg  Config
		want string
	}{
		{Config{Timeout: -1}, "keepalive: invalid argument: Timeout -1ns, must be at least 1ms"},
		{Config{Timeout: 999}, "keepalive: invalid argument: Timeout 999ns, must be at least 1ms"},
		{Config{Tick: -1}, "keepalive: invalid argument: Tick -1ns, must be at least 1ms"},
		{Config{Timeout: 2 * time.Hour, Tick: time.Hour + 1}, "keepalive: invalid argument: Tick 1h0m0.000000001s, must be at most 1h0m0s"},
		{Config{Timeout: time.Second, Tick: 2 * time.Second}, "keepalive: invalid argument: Tick 2s is longer than Timeout 1s"},
		{Config{Activity: 4}, "keepalive: invalid argument: Activity 4, must be 0 to 3"},
		{Config{Activity: -1}, "keepalive: invalid argument: Activity -1, must be 0 to 3"},
		{Config{Room: Room{MaxConns: -1}}, "keepalive: invalid argument: Room.MaxConns -1, must not be negative"},
		{Config{Room: Room{MaxPerKey: -1}}, "keepalive: invalid argument: Room.MaxPerKey -1, must not be negative"},
		{Config{Room: Room{Full: 3}}, "keepalive: invalid argument: Room.Full 3, must be 0 to 2"},
		{Config{Room: Room{Full: -1}}, "keepalive: invalid argument: Room.Full -1, must be 0 to 2"},
		{Config{Room: Room{Full: FullWait}}, "keepalive: invalid argument: Room.Full wait without Room.MaxConns"},
		{Config{Room: Room{Full: FullWait, MaxPerUser: 1}}, "keepalive: invalid argument: Room.Full wait without Room.MaxConns"},
		{Config{Room: Room{Full: FullEvict, MaxPerKey: 1}}, "keepalive: invalid argument: Room.Full evict without Room.MaxConns or Room.MaxPerUser"},
		{Config{Room: Room{MaxPerUser: -1}}, "keepalive: invalid argument: Room.MaxPerUser -1, must not be negative"},
		{Config{Room: Room{Full: FullWait, MaxConns: 1, MinIdle: 1}}, "keepalive: invalid argument: Room.MinIdle 1ns is for Room.Full evict, not for wait"},
		{Config{Room: Room{Full: FullEvict, MaxConns: 1, MinIdle: -1}}, "keepalive: invalid argument: Room.MinIdle -1ns, must not be negative"},
		{Config{FirstMessage: -1}, "keepalive: invalid argument: FirstMessage -1ns, must not be negative"},
		{Config{ReadIdle: -1}, "keepalive: invalid argument: ReadIdle -1ns, must not be negative"},
		{Config{WriteIdle: -1}, "keepalive: invalid argument: WriteIdle -1ns, must not be negative"},
		{Config{Interval: Interval{Multiplier: 0.9}}, "keepalive: invalid argument: Interval.Multiplier 0.9, must be at least 1"},
		{Config{Interval: Interval{Multiplier: math.NaN()}}, "keepalive: invalid argument: Interval.Multiplier NaN, must be at least 1"},
		{Config{Interval: Interval{Multiplier: math.Inf(1)}}, "keepalive: invalid argument: Interval.Multiplier +Inf, must be at least 1"},
		{Config{Interval: Interval{Min: -1}}, "keepalive: invalid argument: Interval.Min -1ns, must not be negative"},
		{Config{Interval: Interval{Max: -1}}, "keepalive: invalid argument: Interval.Max -1ns, must not be negative"},
		{Config{Interval: Interval{Min: 2, Max: 1}}, "keepalive: invalid argument: Interval.Min 2ns is longer than Interval.Max 1ns"},
		{Config{Probe: Probing{After: -1}}, "keepalive: invalid argument: Probe.After -1ns, must not be negative"},
		{Config{Probe: Probing{Timeout: -1}}, "keepalive: invalid argument: Probe.Timeout -1ns, must not be negative"},
		{Config{Probe: Probing{Count: -1}}, "keepalive: invalid argument: Probe.Count -1, must not be negative"},
		{Config{Probe: Probing{Count: 101}}, "keepalive: invalid argument: Probe.Count 101, must be at most 100"},
		{Config{Probe: Probing{Send: func(any) error { return nil }}, Activity: ActivityReadWrite}, "keepalive: invalid argument: Probe.Send with Activity readwrite, for which the probe itself would be life"},
		{Config{Probe: Probing{After: ms, Timeout: time.Second}}, "keepalive: invalid argument: Probe.After 1ms and Probe.Timeout 1s, must be at least Tick 10ms"},
		{Config{Probe: Probing{After: time.Second, Timeout: ms}}, "keepalive: invalid argument: Probe.After 1s and Probe.Timeout 1ms, must be at least Tick 10ms"},
		{Config{Probe: Probing{After: 61 * time.Second, Timeout: time.Second}}, "keepalive: invalid argument: Probe.After 1m1s and 1 times Probe.Timeout 1s, must not be more than Timeout 1m0s"},
		{Config{Probe: Probing{After: 30 * time.Second, Timeout: 10*time.Second + 1, Count: 3}}, "keepalive: invalid argument: Probe.After 30s and 3 times Probe.Timeout 10.000000001s, must not be more than Timeout 1m0s"},
		{Config{Room: Room{Pressure: Pressure{Timeout: time.Minute + 1}}}, "keepalive: invalid argument: Room.Pressure.Timeout 1m0.000000001s is longer than Timeout 1m0s"},
		{Config{Room: Room{Pressure: Pressure{Timeout: ms}}}, "keepalive: invalid argument: Room.Pressure.Timeout 1ms is shorter than Tick 10ms"},
		{Config{Room: Room{Pressure: Pressure{Timeout: -1}}}, "keepalive: invalid argument: Room.Pressure.Timeout -1ns, must not be negative"},
		{Config{Age: Age{Max: -1}}, "keepalive: invalid argument: Age.Max -1ns, must not be negative"},
		{Config{Age: Age{Max: 1, Grace: -1}}, "keepalive: invalid argument: Age.Grace -1ns, must not be negative"},
		{Config{Age: Age{Grace: 1}}, "keepalive: invalid argument: Age.Grace 1ns without an Age.Max"},
		{Config{Age: Age{Jitter: 1}}, "keepalive: invalid argument: Age.Jitter 1, must be less than 1"},
		{Config{Age: Age{Jitter: math.NaN()}}, "keepalive: invalid argument: Age.Jitter NaN, must be less than 1"},
		{Config{Rate: Rate{MinBeat: -1}}, "keepalive: invalid argument: Rate.MinBeat -1ns, must not be negative"},
		{Config{Rate: Rate{MinBytes: -1}}, "keepalive: invalid argument: Rate.MinBytes -1, must not be negative"},
		{Config{Rate: Rate{Strikes: 101}}, "keepalive: invalid argument: Rate.Strikes 101, must be at most 100"},
		{Config{Closing: Closing{Timeout: -1}}, "keepalive: invalid argument: Closing.Timeout -1ns, must not be negative"},
		{Config{Closing: Closing{Mode: -1}}, "keepalive: invalid argument: Closing.Mode -1, must be 0 to 2"},
		{Config{Closing: Closing{Mode: 3}}, "keepalive: invalid argument: Closing.Mode 3, must be 0 to 2"},
		{Config{Closing: Closing{MaxPerSecond: 1e9 + 1}}, "keepalive: invalid argument: Closing.MaxPerSecond 1000000001, must be at most 1000000000"},
	} {
		_, err := New(c.cfg)
		require.ErrorIs(t, err, ErrArgument)
		require.EqualError(t, err, c.want)
		require.Equal(t, err, c.cfg.Validate())
	}
	for _, cfg := range []Config{ // all at their limits
		{Timeout: ms, Tick: ms},
		{Timeout: 2 * time.Hour, Tick: time.Hour},
		{Interval: Interval{Multiplier: 1, Min: 1, Max: 1}},
		{Probe: Probing{Count: 100}, Rate: Rate{Strikes: 100}, Closing: Closing{MaxPerSecond: 1e9, Mode: CloseReset}},
		{Age: Age{Jitter: -1}},
		{Room: Room{Pressure: Pressure{Timeout: 10 * ms, High: 1}}},
		{Room: Room{Pressure: Pressure{Timeout: time.Minute}}},
		{Probe: Probing{After: 30 * time.Second, Timeout: 10 * time.Second, Count: 3}},
		{Probe: Probing{After: 10 * ms, Timeout: 10 * ms}},
		{Activity: ActivityReadWrite},
	} {
		require.NoError(t, cfg.Validate())
	}
	require.Equal(t, "read readwrite manual kernel Activity(7) Activity(4) Activity(-1)",
		fmt.Sprint(ActivityRead, ActivityReadWrite, ActivityManual, ActivityKernel, Activity(7), Activity(4), Activity(-1)))
	require.Equal(t, "graceful half reset CloseMode(3) CloseMode(-1)",
		fmt.Sprint(CloseGraceful, CloseHalf, CloseReset, CloseMode(3), CloseMode(-1)))
}

func TestActivityKernelNeedsSocketsThatTell(t *testing.T) {
	err := ActivityKernel.checkOn(false)
	require.ErrorIs(t, err, ErrArgument)
	require.EqualError(t, err, "keepalive: invalid argument: Activity kernel, must be another on "+runtime.GOOS+
		", whose sockets don't tell when bytes last arrived")
	if socketsTell {
		require.NoError(t, Config{Activity: ActivityKernel}.Validate())
		require.EqualError(t, Config{Activity: ActivityKernel, Advise: true}.Validate(),
			"keepalive: invalid argument: Advise with Activity kernel, whose silences nobody sees begin")
		require.EqualError(t, Config{Activity: ActivityKernel, Rate: Rate{MinBeat: 1}}.Validate(),
			"keepalive: invalid argument: Rate.MinBeat 1ns with Activity kernel, which counts no touches")
	} else {
		require.EqualError(t, Config{Activity: ActivityKernel}.Validate(), err.Error())
	}
	for a := range ActivityKernel {
		require.NoError(t, a.checkOn(false))
	}
}

// activitiesHere are all activities possible on this system.
func activitiesHere() (all []Activity) {
	for a := range Activity(len(activityNames)) {
		if a.check() == nil {
			all = append(all, a)
		}
	}
	return all
}

// eachActivity runs a test for each of them, at the same time.
func eachActivity(t *testing.T, all []Activity, test func(t *testing.T, a Activity)) {
	for _, a := range all {
		t.Run("activity="+a.String(), func(t *testing.T) {
			t.Parallel()
			test(t, a)
		})
	}
}

// readingActivities are those of them with arriving bytes as life.
func readingActivities() []Activity {
	return slices.DeleteFunc(activitiesHere(), func(a Activity) bool { return a == ActivityManual })
}

func TestDefaults(t *testing.T) {
	for _, c := range []struct{ timeout, wantTimeout, wantTick time.Duration }{
		{0, time.Minute, 10 * ms},
		{time.Second, time.Second, 10 * ms},
		{500 * ms, 500 * ms, 10 * ms},
		{90 * ms, 90 * ms, 9 * ms},
		{5 * ms, 5 * ms, ms},
		{ms, ms, ms},
	} {
		k := newKeeper(t, Config{Timeout: c.timeout})
		require.Equal(t, c.wantTimeout, k.Config().Timeout)
		require.Equal(t, c.wantTick, k.Config().Tick)
	}
	cfg := newKeeper(t, Config{}).Config()
	require.Equal(t, 1.5, cfg.Interval.Multiplier)
	require.Equal(t, 0.1, cfg.Age.Jitter)
	require.Equal(t, 3, cfg.Rate.Strikes)
	require.Equal(t, time.Second, cfg.Closing.Timeout)
	require.Equal(t, 50*ms, newKeeper(t, Config{Timeout: 500 * ms}).sleep)
	probe := newKeeper(t, Config{Probe: Probing{Count: 2}}).Config().Probe
	require.Equal(t, 30*time.Second, probe.After)
	require.Equal(t, 15*time.Second, probe.Timeout)
	for timeout, want := range map[time.Duration]time.Duration{10 * time.Second: 5 * time.Second, 15 * ms: 10 * ms} {
		after, wait, count := Probing{}.times(timeout, 10*ms)
		require.Equal(t, []time.Duration{want, want, 1}, []time.Duration{after, wait, time.Duration(count)})
	}
}

func TestSilentLoggerStaysSilentButPanicsAreHeard(t *testing.T) {
	before := slog.Default()
	defer slog.SetDefault(before)
	var log bytes.Buffer
	slog.SetDefault(slog.New(slog.NewTextHandler(&log, nil)))
	k := newKeeper(t, Config{})
	require.False(t, k.log.Enabled(context.Background(), slog.LevelError))
	k.call("OnClose", func() { panic("x") })
	require.Contains(t, log.String(), "OnClose: x")
}
