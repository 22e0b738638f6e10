//go:build unix

package gnetkeepalive

import (
	"fmt"
	"log/slog"
	"net"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/panjf2000/gnet/v2"
	"github.com/stretchr/testify/require"

	"github.com/heartwheel-go/heartwheel/internal/frameworks"
	"github.com/heartwheel-go/heartwheel/internal/logtest"
	"github.com/heartwheel-go/heartwheel/internal/port"
	"github.com/heartwheel-go/heartwheel/keepalive"
	"github.com/heartwheel-go/heartwheel/keepalive/adapter/adaptertest"
	"github.com/heartwheel-go/heartwheel/keepalive/udpkeepalive"
)

func TestTheAdapterForUDPConforms(t *testing.T) {
	t.Parallel()
	proved := adaptertest.Run(t, adaptertest.Adapter{
		Datagrams: true, NoSocket: true, NoWait: true, InLoop: true, NoGoexit: true,
		Start: func(t *testing.T, k *keepalive.Keeper, handle adaptertest.Handler) net.Addr {
			return startUDP(t, k, &app{onTraffic: func(c gnet.Conn) gnet.Action {
				line, _ := c.Next(-1)
				answer, stay := handle(sessionOf(c), strings.TrimSuffix(string(line), "\n"))
				if len(answer) > 0 {
					_, _ = c.Write(answer)
				}
				if !stay {
					return gnet.Close
				}
				return gnet.None
			}}).addr
		},
	})
	frameworks.Check(t, "[UDP on gnet](udp.md#gnet)", "Linux, macOS, BSD", proved)
}

func startUDP(t testing.TB, k *keepalive.Keeper, a *app) *engine {
	return runUDP(t, a, WrapUDP[int](a, k))
}

// runUDP runs an engine on a port for itself: gnet's sockets share theirs, and so two engines could
// have the same one.
func runUDP(t testing.TB, a *app, h gnet.EventHandler, opts ...gnet.Option) *engine {
	return runUDPOn(t, "127.0.0.1:0", []string{"127.0.0.1"}, a, h, opts...)
}

// runUDPOn runs an engine on several hosts, with a port for itself at the claimed address.
func runUDPOn(t testing.TB, claimed string, hosts []string, a *app, h gnet.EventHandler, opts ...gnet.Option) *engine {
	claim, _, err := port.ClaimUDP(claimed)
	require.NoError(t, err)
	_, port, err := net.SplitHostPort(claim.LocalAddr().String())
	require.NoError(t, err)
	addrs := make([]string, len(hosts))
	for i, host := range hosts {
		addrs[i] = "udp://" + net.JoinHostPort(host, port)
	}
	a.booted = make(chan booted, 1)
	a.onBoot = func() gnet.Action {
		_ = claim.Close()
		return gnet.None
	}
	e := &engine{done: make(chan error, 1)}
	go func() { e.done <- gnet.Rotate(h, addrs, append(opts, quiet)...) }()
	e.booted = <-a.booted
	e.addr = claim.LocalAddr() // of several sockets
	t.Cleanup(func() { e.stop(t) })
	return e
}

func sessionOf(c gnet.Conn) *udpkeepalive.Session[int] {
	return c.SafeContext().(*udpkeepalive.Session[int])
}

// answerUDP returns the answer to a datagram. The server may not be there yet.
func answerUDP(t *testing.T, c net.Conn, question string) string {
	t.Helper()
	buf := make([]byte, 100)
	for begun := time.Now(); ; {
		require.Less(t, time.Since(begun), eternal)
		_, _ = c.Write([]byte(question))
		require.NoError(t, c.SetReadDeadline(time.Now().Add(time.Second)))
		if n, err := c.Read(buf); err == nil {
			return string(buf[:n])
		}
	}
}

func TestWrapUDPNeedsAHandlerAndAKeeper(t *testing.T) {
	a, k := new(app), newKeeper(t, keepalive.Config{})
	const want = "gnetkeepalive: WrapUDP needs a handler and a Keeper from keepalive.New"
	require.PanicsWithValue(t, want, func() { WrapUDP[int](nil, k) })
	require.PanicsWithValue(t, want, func() { WrapUDP[int](a, nil) })
	require.PanicsWithValue(t, want, func() { WrapUDP[int](a, new(keepalive.Keeper)) })
}

func TestUDPPassesThrough(t *testing.T) {
	t.Parallel()
	k := newKeeper(t, keepalive.Config{})
	a := &app{onTraffic: func(c gnet.Conn) gnet.Action {
		if keepalive.Touch(c) {
			t.Error("guarded")
		}
		return echo(c)
	}}
	e := runUDP(t, a, Wrap(a, k))
	require.Equal(t, "ping", answerUDP(t, e.dial(t), "ping"))
	require.Zero(t, k.Len())
}

// Each event loop has a socket of its own. All sessions are counted, and each ends.
func TestSessionsOfSeveralLoops(t *testing.T) {
	t.Parallel()
	k := newKeeper(t, keepalive.Config{Timeout: 500 * ms})
	a := &app{onTraffic: func(c gnet.Conn) gnet.Action {
		sessionOf(c).Value++
		return echo(c)
	}}
	h := WrapUDP[int](a, k).(*datagrams[int])
	e := runUDP(t, a, h, gnet.WithNumEventLoop(4))
	const sessions = 100
	for range sessions {
		require.Equal(t, "hello", answerUDP(t, e.dial(t), "hello"))
	}
	h.mu.Lock()
	require.Greater(t, len(h.of), 1, "one loop has all sessions")
	h.mu.Unlock()
	require.Eventually(t, func() bool { // a datagram sent again may have begun another session
		return k.Stats().Closed[keepalive.ReasonIdle] >= sessions && k.Len() == 0
	}, eternal, ms)
}

// cookies is an AcceptingHandler.
type cookies struct{ *app }

func (cookies) OnStranger(c gnet.Conn) bool {
	buf, _ := c.Peek(-1)
	if string(buf) == "cookie" {
		return true
	}
	_, _ = c.Write([]byte("cookie"))
	return false
}

func TestStrangersOfUDP(t *testing.T) {
	t.Parallel()
	k := newKeeper(t, keepalive.Config{Timeout: eternal})
	a := &app{onTraffic: echo}
	e := runUDP(t, a, WrapUDP[int](cookies{a}, k))
	c := e.dial(t)
	require.Equal(t, "cookie", answerUDP(t, c, "hello"))
	require.Zero(t, k.Len())
	require.Equal(t, "cookie", answerUDP(t, c, "cookie"))
	require.Equal(t, 1, k.Len())
	require.Equal(t, "hello", answerUDP(t, c, "hello"))
}

// A handler with both has both wrapped, in either order, and nothing is guarded twice.
// movers is a MovingHandler with one peer.
type movers struct {
	*app
	mu    sync.Mutex
	known *udpkeepalive.Session[int]
	moves int
}

func (m *movers) OnMove(c gnet.Conn) *udpkeepalive.Session[int] {
	buf, _ := c.Peek(-1)
	move := 0
	_, err := fmt.Sscanf(string(buf), "it is me %d", &move)
	m.mu.Lock()
	defer m.mu.Unlock()
	if err != nil || move <= m.moves { // a replay
		return nil
	}
	m.moves = move
	return m.known
}

// The datagrams of a new address may come to another event loop.
func TestASessionMovesBetweenEventLoops(t *testing.T) {
	t.Parallel()
	k := newKeeper(t, keepalive.Config{Timeout: eternal})
	m := &movers{app: new(app)}
	m.onTraffic = func(c gnet.Conn) gnet.Action {
		session := sessionOf(c)
		buf, _ := c.Peek(-1)
		action := gnet.None
		switch string(buf) {
		case "reboot":
			session, _ = session.Restart()
		case "reboot and go":
			_, _ = session.Restart()
			action = gnet.Close
		}
		m.mu.Lock()
		m.known = session
		m.mu.Unlock()
		info, _ := keepalive.Of(session).Info()
		_, _ = fmt.Fprint(c, info.ID)
		return action
	}
	h := WrapUDP[int](m, k).(*datagrams[int])
	e := runUDP(t, m.app, h, gnet.WithNumEventLoop(4))
	first := answerUDP(t, e.dial(t), "hello")
	var last net.Conn
	for i := range 50 {
		last = e.dial(t)
		require.Equal(t, first, answerUDP(t, last, fmt.Sprint("it is me ", i+1)))
	}
	h.mu.Lock()
	require.Greater(t, len(h.of), 1, "one loop has all sessions")
	h.mu.Unlock()
	require.Equal(t, 1, k.Len())
	m.mu.Lock()
	require.Equal(t, last.LocalAddr().String(), m.known.Peer().String())
	m.mu.Unlock()
	require.NotEqual(t, first, answerUDP(t, e.dial(t), "hello"), "a stranger")
	require.Equal(t, 2, k.Len())
	require.NotEqual(t, first, answerUDP(t, last, "reboot"))
	require.Equal(t, 2, k.Len())
	answerUDP(t, last, "reboot and go")
	require.Eventually(t, func() bool { return k.Len() == 1 }, eternal, ms)
}

func TestBothWraps(t *testing.T) {
	t.Parallel()
	for _, network := range []string{"tcp", "udp"} {
		for _, outer := range []string{"tcp", "udp"} {
			k := newKeeper(t, keepalive.Config{Timeout: eternal})
			a := &app{onTraffic: func(c gnet.Conn) gnet.Action {
				if !keepalive.Touch(c) || keepalive.Of(c) == nil {
					t.Error("not guarded")
				}
				return echo(c)
			}}
			h := WrapUDP[int](Wrap(a, k), k)
			if outer == "tcp" {
				h = Wrap(WrapUDP[int](a, k), k)
			}
			a.booted = make(chan booted, 1)
			run := map[string]func() *engine{
				"tcp": func() *engine { return run(t, "tcp://127.0.0.1:0", a, h) },
				"udp": func() *engine { return runUDP(t, a, h) },
			}[network]
			c := run().dial(t)
			require.Equal(t, "hello", answerUDP(t, c, "hello"))
			require.EqualValues(t, 1, k.Stats().Opened)
			setTimeouts(t, k, 300*ms)
			require.Eventually(t, func() bool { return k.Stats().Closed[keepalive.ReasonIdle] == 1 }, eternal, ms)
		}
	}
}

// The session sends from any goroutine, and no more after the engine: its descriptor may be somebody
// else's.
func TestSessionEndsWithItsEngine(t *testing.T) {
	t.Parallel()
	sessions, ended := make(chan *udpkeepalive.Session[int], 1), make(chan keepalive.Reason, 1)
	k := newKeeper(t, keepalive.Config{OnClose: func(_ any, r keepalive.Reason) { ended <- r }})
	a := &app{onTraffic: func(c gnet.Conn) gnet.Action {
		sessions <- sessionOf(c)
		return gnet.None
	}}
	e := startUDP(t, k, a)
	c := e.dial(t)
	_, err := c.Write([]byte("hello"))
	require.NoError(t, err)
	s := <-sessions
	_, err = s.Write([]byte("by itself"))
	require.NoError(t, err)
	buf := make([]byte, 100)
	n, err := c.Read(buf)
	require.NoError(t, err)
	require.Equal(t, "by itself", string(buf[:n]))
	e.stop(t)
	require.Equal(t, keepalive.ReasonLocal, <-ended)
	_, err = s.Write([]byte("too late"))
	require.ErrorIs(t, err, net.ErrClosed)
}

// Event loops still read while the engine goes down. Nobody would end such a session.
func TestNoSessionBeginsDuringTheShutdown(t *testing.T) {
	t.Parallel()
	k := newKeeper(t, keepalive.Config{})
	a := &app{onTraffic: echo}
	h := WrapUDP[int](a, k)
	c := runUDP(t, a, h).dial(t)
	require.Equal(t, "hello", answerUDP(t, c, "hello"))
	h.OnShutdown(gnet.Engine{})
	require.Zero(t, k.Len())
	for range 10 {
		_, err := c.Write([]byte("again"))
		require.NoError(t, err)
	}
	require.NoError(t, c.SetReadDeadline(time.Now().Add(50*ms)))
	for buf := make([]byte, 100); ; {
		n, err := c.Read(buf)
		if err != nil {
			require.ErrorIs(t, err, os.ErrDeadlineExceeded)
			break
		}
		require.Equal(t, "hello", string(buf[:n]), "a busy server may have answered twice before")
	}
	require.Zero(t, k.Len())
}

// A gnet.Client has a connection, and no sessions.
func TestUDPOfAClientPassesThrough(t *testing.T) {
	t.Parallel()
	peer, err := net.ListenPacket("udp", "127.0.0.1:0")
	require.NoError(t, err)
	defer peer.Close()
	k := newKeeper(t, keepalive.Config{})
	heard := make(chan any, 1)
	a := &app{booted: make(chan booted, 1), onTraffic: func(c gnet.Conn) gnet.Action {
		heard <- keepalive.Of(c)
		return gnet.None
	}}
	client, err := gnet.NewClient(WrapUDP[int](a, k), quiet)
	require.NoError(t, err)
	require.NoError(t, client.Start())
	defer client.Stop()
	c, err := client.Dial("udp", peer.LocalAddr().String())
	require.NoError(t, err)
	_, err = c.Write([]byte("hello"))
	require.NoError(t, err)
	_, from, err := peer.ReadFrom(make([]byte, 10))
	require.NoError(t, err)
	_, err = peer.WriteTo([]byte("hello"), from)
	require.NoError(t, err)
	require.Nil(t, <-heard)
	require.Zero(t, k.Stats().Opened)
}

// A server with several addresses listens on each: then an answer comes from the asked one.
func TestUDPOnSeveralAddresses(t *testing.T) {
	t.Parallel()
	for name, tests := range map[string]struct {
		hosts, asked []string
		warned       int
	}{
		"each":     {hosts: []string{"127.0.0.1", "127.0.0.2"}, asked: []string{"127.0.0.1", "127.0.0.2"}},
		"wildcard": {hosts: []string{""}, asked: []string{"127.0.0.1", "127.0.0.1"}, warned: 1},
		"IPv4":     {hosts: []string{"0.0.0.0"}, asked: []string{"127.0.0.1", "127.0.0.1"}, warned: 1},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var logged logtest.Log
			k := newKeeper(t, keepalive.Config{Logger: logged.Logger(slog.LevelWarn)})
			a := &app{onTraffic: func(c gnet.Conn) gnet.Action {
				sessionOf(c).Value++
				_, _ = fmt.Fprint(c, sessionOf(c).Value)
				return gnet.None
			}}
			e := runUDPOn(t, ":0", tests.hosts, a, WrapUDP[int](a, k))
			_, port, err := net.SplitHostPort(e.addr.String())
			require.NoError(t, err)
			for _, host := range tests.asked {
				c, err := net.Dial("udp", net.JoinHostPort(host, port))
				require.NoError(t, err)
				defer c.Close()
				require.Equal(t, "1", answerUDP(t, c, "hello"))
			}
			require.Equal(t, tests.warned, len(logged.Lines("an answer may leave")), logged.String())
		})
	}
}
