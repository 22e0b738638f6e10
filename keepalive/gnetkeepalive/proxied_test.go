package gnetkeepalive

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/netip"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/panjf2000/gnet/v2"
	"github.com/stretchr/testify/require"

	"github.com/heartwheel-go/heartwheel/internal/logtest"
	"github.com/heartwheel-go/heartwheel/keepalive"
	"github.com/heartwheel-go/heartwheel/keepalive/adapter/adaptertest"
	"github.com/heartwheel-go/heartwheel/keepalive/proxyprotocol"
)

// Headers of proxies.
const (
	alice = "PROXY TCP4 192.0.2.1 192.0.2.9 1111 80\r\n"
	bob   = "PROXY TCP6 2001:db8::b 2001:db8::9 2222 80\r\n"
	check = "\r\n\r\n\x00\r\nQUIT\n\x20\x00\x00\x05TLV\x00\x00" // LOCAL, with an addition
	carol = "\r\n\r\n\x00\r\nQUIT\n\x21\x11\x00\x0f" + "\xc0\x00\x02\x03\xc0\x00\x02\x09\x0d\x05\x00\x50" + "TLV"
)

var (
	here      = proxyprotocol.Config{Trusted: []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}}
	elsewhere = proxyprotocol.Config{Trusted: []netip.Prefix{netip.MustParsePrefix("192.0.2.0/24")}}
)

// proxiedApp notes the peers of OnOpen and OnClose.
type proxiedApp struct {
	app
	mu    sync.Mutex
	peers []string
}

func newProxiedApp() *proxiedApp {
	a := &proxiedApp{}
	a.onOpen = func(c gnet.Conn) ([]byte, gnet.Action) {
		a.mu.Lock()
		defer a.mu.Unlock()
		a.peers = append(a.peers, c.RemoteAddr().String())
		return []byte("hello"), gnet.None
	}
	a.onRefuse = func(gnet.Conn, keepalive.Reason) []byte { return []byte("too many") }
	return a
}

func (a *proxiedApp) heard() []string {
	a.mu.Lock()
	defer a.mu.Unlock()
	return append([]string(nil), a.peers...)
}

func startProxied(t testing.TB, addr string, a *proxiedApp, k *keepalive.Keeper, cfg proxyprotocol.Config, opts ...gnet.Option) *engine {
	a.booted, a.keeper = make(chan booted, 1), k
	h, err := WrapProxied(a, k, cfg)
	require.NoError(t, err)
	a.loops = &h.(*handler).loops
	return run(t, addr, &a.app, h, opts...)
}

const anyPort = "tcp://127.0.0.1:0"

func TestTheClientCountsAndNotItsProxy(t *testing.T) {
	t.Parallel()
	modes(t, func(t *testing.T, opts ...gnet.Option) {
		ends := make(chan string, 9)
		k := newKeeper(t, keepalive.Config{
			Timeout: time.Minute,
			Room:    keepalive.Room{MaxPerKey: 1},
			OnClose: func(conn any, reason keepalive.Reason) {
				ends <- fmt.Sprint(conn.(gnet.Conn).RemoteAddr(), " ", reason.String())
			},
		})
		a := newProxiedApp()
		e := startProxied(t, anyPort, a, k, here, opts...)
		greeted := func(header string) net.Conn {
			c := e.dial(t)
			greet(t, c, header, "beat")
			return c
		}
		first := greeted(alice)
		greeted(bob)
		greeted(carol)
		require.ElementsMatch(t, []string{"192.0.2.1:1111", "[2001:db8::b]:2222", "192.0.2.3:3333"}, a.heard())

		again := e.dial(t)
		_, err := io.WriteString(again, strings.Replace(alice, "1111", "4444", 1))
		require.NoError(t, err)
		said, err := io.ReadAll(again)
		require.NoError(t, err)
		require.Equal(t, "too many", string(said))
		require.Equal(t, "192.0.2.1:4444 full", <-ends)
		require.Len(t, a.heard(), 3)

		var remotes []string
		for g := range k.Guards() {
			remotes = append(remotes, g.RemoteAddr(t.Context()).String())
		}
		require.ElementsMatch(t, a.heard(), remotes)
		first.Close()
		require.Equal(t, "192.0.2.1:1111 peer", <-ends)
		greeted(alice)
		for range 3 { // its own connections are none of a client's
			greeted(check)
		}
		require.Equal(t, 6, k.Len())
		require.EqualValues(t, 1, k.Stats().Closed[keepalive.ReasonFull])
	})
}

// greet writes a header and a word, and requires a greeting and the word back.
func greet(t testing.TB, c net.Conn, header, word string) {
	t.Helper()
	_, err := io.WriteString(c, header+word)
	require.NoError(t, err)
	said := make([]byte, len("hello")+len(word))
	_, err = io.ReadFull(c, said)
	require.NoError(t, err)
	require.Equal(t, "hello"+word, string(said))
}

func TestAHeaderMayComeInPieces(t *testing.T) {
	t.Parallel()
	modes(t, func(t *testing.T, opts ...gnet.Option) {
		a := newProxiedApp()
		e := startProxied(t, anyPort, a, newKeeper(t, keepalive.Config{Timeout: time.Minute}), here, opts...)
		for _, header := range []string{alice, bob, carol, check} {
			c := e.dial(t)
			require.NoError(t, c.(*net.TCPConn).SetNoDelay(true))
			for i := range len(header) {
				_, err := c.Write([]byte{header[i]})
				require.NoError(t, err)
				if i%8 == 0 {
					time.Sleep(ms) // for a read of its own
				}
			}
			greet(t, c, "", "beat")
			say(t, c, "PROXY TCP4 192.0.2.7 192.0.2.9 1 80\r\n") // now it is the client's own
		}
		require.Len(t, a.heard(), 4)
	})
}

// A wrong header, none, or an untrusted source: the handler hears nothing of the connection.
func TestConnectionsThatAreNotLetIn(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		cfg  proxyprotocol.Config
		says string
		want error
	}{
		"no header":      {here, "GET / HTTP/1.1\r\n\r\n", proxyprotocol.ErrNoHeader},
		"a wrong header": {here, "PROXY TCP4 192.0.2.1 192.0.2.9 -1 80\r\n", proxyprotocol.ErrHeader},
		"a long line":    {here, "PROXY UNKNOWN " + strings.Repeat("x", 200), proxyprotocol.ErrHeader},
		"a long header":  {here, check[:14] + "\xff\xff", proxyprotocol.ErrHeader},
		"a stranger":     {elsewhere, alice + "beat", proxyprotocol.ErrUntrusted},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var log logtest.Log
			k := newKeeper(t, keepalive.Config{Timeout: time.Minute, Logger: log.Logger(slog.LevelWarn)})
			a := newProxiedApp()
			a.onClose = func(gnet.Conn, error) gnet.Action { t.Error("told"); return gnet.None }
			e := startProxied(t, anyPort, a, k, tt.cfg)
			for range 3 {
				c := e.dial(t)
				_, _ = io.WriteString(c, tt.says)
				n, _ := io.Copy(io.Discard, c) // perhaps reset: not all was read
				require.Zero(t, n)
			}
			require.Eventually(t, func() bool { return k.Len() == 0 }, eternal, ms)
			require.Empty(t, a.heard())
			require.Equal(t, 1, strings.Count(log.String(), "closing a connection for its header"))
			require.Contains(t, log.String(), tt.want.Error())
			require.Contains(t, log.String(), "remote=127.0.0.1:")
		})
	}
}

// Bytes of the header are no life. FirstMessage, or else Timeout, is the time for all of it and the first bytes behind it.
func TestASlowHeaderIsNoLife(t *testing.T) {
	t.Parallel()
	for _, activity := range activities() {
		for _, first := range []time.Duration{0, timeout / 2} {
			t.Run(fmt.Sprintf("activity=%v/first=%v", activity, first), func(t *testing.T) {
				t.Parallel()
				ends := make(chan keepalive.Reason, 3)
				k := newKeeper(t, keepalive.Config{
					Timeout: timeout, Tick: 10 * ms, FirstMessage: first, Activity: activity,
					OnClose: func(_ any, reason keepalive.Reason) { ends <- reason },
				})
				a := newProxiedApp()
				e := startProxied(t, anyPort, a, k, here)
				want, limit := keepalive.ReasonIdle, timeout
				if first > 0 {
					want, limit = keepalive.ReasonFirstMessage, first
				}
				begin := time.Now()
				slow, silent, started := e.dial(t), e.dial(t), e.dial(t)
				_, err := io.WriteString(silent, alice) // and no more
				require.NoError(t, err)
				_, err = io.WriteString(started, carol[:20])
				require.NoError(t, err)
				go func() {
					for _, b := range []byte("PROXY UNKNOWN " + strings.Repeat("x", 80)) {
						time.Sleep(limit / 20)
						if _, err := slow.Write([]byte{b}); err != nil {
							return
						}
					}
				}()
				for range 3 {
					reason := <-ends
					if reason != keepalive.ReasonIdle || k.Stats().Spared == 0 { // else this program read a header late: the peer may have waited for that
						require.Equal(t, want, reason)
					}
					require.GreaterOrEqual(t, time.Since(begin), limit)
				}
				require.Equal(t, []string{"192.0.2.1:1111"}, a.heard())
				require.EqualValues(t, 1, a.closed.Load())
			})
		}
	}
}

func TestOptionalHeaders(t *testing.T) {
	t.Parallel()
	for _, cfg := range []proxyprotocol.Config{here, elsewhere} {
		cfg.Optional = true
		k := newKeeper(t, keepalive.Config{Timeout: time.Minute, Room: keepalive.Room{MaxPerKey: 1}})
		a := newProxiedApp()
		e := startProxied(t, anyPort, a, k, cfg)
		c := e.dial(t)
		greet(t, c, "", "beat")
		require.Equal(t, []string{c.LocalAddr().String()}, a.heard())
		c.Close()
		require.Eventually(t, func() bool { return k.Len() == 0 }, eternal, ms)

		spoofed := e.dial(t)
		if cfg.Trusted[0] == here.Trusted[0] {
			greet(t, spoofed, alice, "beat")
			require.Equal(t, "192.0.2.1:1111", a.heard()[1])
			continue
		}
		greet(t, spoofed, "", alice)
		require.Equal(t, spoofed.LocalAddr().String(), a.heard()[1], "a header of a stranger is nothing but bytes")
		said, err := io.ReadAll(e.dial(t))
		require.NoError(t, err)
		require.Equal(t, "too many", string(said), "it counts as itself, and at once")
	}
}

func TestAProxyOnAUnixSocket(t *testing.T) {
	t.Parallel()
	k := newKeeper(t, keepalive.Config{Timeout: time.Minute, Room: keepalive.Room{MaxPerKey: 1}})
	a := newProxiedApp()
	e := startProxied(t, "unix://"+filepath.Join(t.TempDir(), "s"), a, k, elsewhere)
	greet(t, e.dial(t), alice, "beat")
	greet(t, e.dial(t), bob, "beat")
	said, err := io.ReadAll(first(e.dial(t), alice))
	require.NoError(t, err)
	require.Equal(t, "too many", string(said))
	var remotes []string
	for g := range k.Guards() {
		remotes = append(remotes, g.RemoteAddr(t.Context()).String())
	}
	require.ElementsMatch(t, []string{"192.0.2.1:1111", "[2001:db8::b]:2222"}, remotes)
}

// first writes something to a connection.
func first(c net.Conn, says string) net.Conn {
	_, _ = io.WriteString(c, says)
	return c
}

// What OnOpen returns and does has the effect that it has without a header.
func TestOnOpenBehindAHeader(t *testing.T) {
	t.Parallel()
	for name, onOpen := range map[string]func(gnet.Conn) ([]byte, gnet.Action){
		"closes": func(gnet.Conn) ([]byte, gnet.Action) { return []byte("bye"), gnet.Close },
		"closes at once": func(c gnet.Conn) ([]byte, gnet.Action) {
			_, _ = c.Write([]byte("bye"))
			_ = c.EventLoop().Close(c)
			return []byte("lost"), gnet.None
		},
		"closes soon": func(c gnet.Conn) ([]byte, gnet.Action) { _ = c.Close(); return []byte("bye"), gnet.None },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			ends := make(chan keepalive.Reason, 1)
			k := newKeeper(t, keepalive.Config{Timeout: time.Minute, OnClose: func(_ any, reason keepalive.Reason) { ends <- reason }})
			a := newProxiedApp()
			a.onOpen, a.onTraffic = onOpen, func(c gnet.Conn) gnet.Action { _, _ = c.Discard(-1); return gnet.None }
			e := startProxied(t, anyPort, a, k, here)
			c := e.dial(t)
			_, err := io.WriteString(c, alice+"beat")
			require.NoError(t, err)
			said, err := io.ReadAll(c)
			require.NoError(t, err)
			require.Equal(t, "bye", string(said))
			require.Equal(t, keepalive.ReasonLocal, <-ends)
			require.EqualValues(t, 1, a.closed.Load())
		})
	}
}

// While a connection waits for its header, it counts in MaxConns, is drained, and is asked for its address.
func TestConnectionsBeforeTheirHeader(t *testing.T) {
	t.Parallel()
	k := newKeeper(t, keepalive.Config{Timeout: time.Minute, Room: keepalive.Room{MaxConns: 2}, Closing: keepalive.Closing{Mode: keepalive.CloseHalf}})
	a := newProxiedApp()
	a.onClose = func(gnet.Conn, error) gnet.Action { t.Error("told"); return gnet.None }
	e := startProxied(t, anyPort, a, k, here)
	one, two := e.dial(t), first(e.dial(t), alice[:9])
	require.Eventually(t, func() bool { return k.Len() == 2 }, eternal, ms)
	said, err := io.ReadAll(e.dial(t))
	require.NoError(t, err)
	require.Equal(t, "too many", string(said))
	for g := range k.Guards() {
		require.Contains(t, []string{one.LocalAddr().String(), two.LocalAddr().String()}, g.RemoteAddr(t.Context()).String())
		require.NotNil(t, keepalive.Of(g.Conn()))
		require.True(t, keepalive.Touch(g.Conn()))
	}
	drained := make(chan error, 1)
	go func() { drained <- k.Drain(context.Background(), 0) }()
	for _, c := range []net.Conn{one, two} {
		requireClosed(t, c)
		_, _ = io.WriteString(c, alice[9:]) // too late
		c.Close()
	}
	require.NoError(t, <-drained)
	require.Empty(t, a.heard())
}

func TestHeadersWithoutAKeeper(t *testing.T) {
	t.Parallel()
	k := newKeeper(t, keepalive.Config{})
	require.NoError(t, k.Close())
	a := newProxiedApp()
	e := startProxied(t, anyPort, a, k, here)
	c := e.dial(t)
	greet(t, c, alice, "beat")
	require.Equal(t, []string{"192.0.2.1:1111"}, a.heard())
	c.Close()
	require.Eventually(t, func() bool { return a.closed.Load() == 1 }, eternal, ms)
}

func TestWrapProxiedWithoutProxies(t *testing.T) {
	t.Parallel()
	k := newKeeper(t, keepalive.Config{})
	_, err := WrapProxied(&app{}, k, proxyprotocol.Config{Optional: true})
	require.ErrorIs(t, err, keepalive.ErrArgument)
	require.EqualError(t, err, "proxyprotocol: invalid argument: Trusted is empty, must have the networks of the proxies")
	require.Panics(t, func() { _, _ = WrapProxied(nil, k, here) })
	require.Panics(t, func() { _, _ = WrapProxied(&app{}, nil, here) })
}

// Each connection of the suite waits for a header that does not come.
func TestTheAdapterForGnetConformsBehindAProxy(t *testing.T) {
	t.Parallel()
	cfg := here
	cfg.Optional = true
	adaptertest.Run(t, adaptertest.Adapter{
		NoWait: true, InLoop: true, NoGoexit: true,
		Start: func(t *testing.T, k *keepalive.Keeper, handle adaptertest.Handler) net.Addr {
			a := &proxiedApp{}
			a.onTraffic = func(c gnet.Conn) gnet.Action { return handleLines(c, handle) }
			return startProxied(t, anyPort, a, k, cfg).addr
		},
	})
}
