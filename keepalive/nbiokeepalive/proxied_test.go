package nbiokeepalive

import (
	"fmt"
	"io"
	"net"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/lesismal/nbio"
	"github.com/stretchr/testify/require"

	"github.com/heartwheel-go/heartwheel/keepalive"
	"github.com/heartwheel-go/heartwheel/keepalive/adapter/adaptertest"
	"github.com/heartwheel-go/heartwheel/keepalive/nbiokeepalive/internal/conns"
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

// proxied is a server behind a proxy, with notes of what it hears. It greets, and repeats what it gets.
type proxied struct {
	*Engine
	k      *keepalive.Keeper
	addr   net.Addr
	opened chan string // peers
	closed chan error
}

func runProxied(t testing.TB, config nbio.Config, cfg keepalive.Config, proxies proxyprotocol.Config) *proxied {
	t.Helper()
	p := &proxied{k: newKeeper(t, cfg), opened: make(chan string, 100), closed: make(chan error, 100)}
	config.Network, config.Addrs = "tcp", []string{"127.0.0.1:0"}
	var err error
	p.Engine, err = WrapProxied(nbio.NewEngine(config), p.k, proxies)
	require.NoError(t, err)
	p.OnOpen(func(c *nbio.Conn) {
		p.opened <- c.RemoteAddr().String()
		c.SetSession(new(lines))
		_, _ = c.Write([]byte("hello"))
	})
	p.OnData(func(c *nbio.Conn, data []byte) { _, _ = c.Write(data) })
	p.OnClose(func(c *nbio.Conn, err error) {
		if c.Session() == nil {
			t.Error("the end comes before the beginning")
		}
		p.closed <- err
	})
	p.addr = start(t, p.Engine)
	return p
}

func (p *proxied) dial(t testing.TB) net.Conn {
	t.Helper()
	c, err := net.Dial("tcp", p.addr.String())
	require.NoError(t, err)
	t.Cleanup(func() { c.Close() })
	require.NoError(t, c.SetDeadline(time.Now().Add(eternal)))
	return c
}

// greet says a header and a word, and requires a greeting and the word back.
func greet(t testing.TB, c net.Conn, header, word string) {
	t.Helper()
	_, err := io.WriteString(c, header+word)
	require.NoError(t, err)
	hear(t, c, "hello"+word)
}

func hear(t testing.TB, c net.Conn, want string) {
	t.Helper()
	said := make([]byte, len(want))
	_, err := io.ReadFull(c, said)
	require.NoError(t, err)
	require.Equal(t, want, string(said))
}

// The peer leaves before its header, and a goroutine of nbio's comes with bytes during the end.
func TestBytesOfAConnectionWithoutAHeaderAreNotForTheProgram(t *testing.T) {
	t.Parallel()
	entered := make(chan bool, 1)
	p := runProxied(t, nbio.Config{}, keepalive.Config{Timeout: eternal, OnClose: func(conn any, _ keepalive.Reason) {
		late := []byte(alice + "late")
		_, ok := conns.Enter(conn.(*nbio.Conn), &late)
		entered <- ok
	}}, here)
	require.NoError(t, p.dial(t).Close())
	require.False(t, receive(t, entered))
	require.Empty(t, p.opened)
	require.Empty(t, p.closed)
}

func TestTheClientCountsAndNotItsProxy(t *testing.T) {
	t.Parallel()
	for name, mode := range modes {
		if mode.reads || mode.config.Network != "" {
			continue
		}
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			ends := make(chan string, 9)
			p := runProxied(t, mode.config, keepalive.Config{
				Timeout: time.Minute,
				Room:    keepalive.Room{MaxPerKey: 1},
				OnClose: func(conn any, reason keepalive.Reason) {
					ends <- fmt.Sprint(conn.(*nbio.Conn).RemoteAddr(), " ", reason.String())
				},
			}, here)
			first := p.dial(t)
			greet(t, first, alice, "beat")
			require.Equal(t, "192.0.2.1:1111", receive(t, p.opened))
			greet(t, p.dial(t), bob, "beat")
			require.Equal(t, "[2001:db8::b]:2222", receive(t, p.opened))
			greet(t, p.dial(t), carol, "beat")
			require.Equal(t, "192.0.2.3:3333", receive(t, p.opened))

			again := p.dial(t)
			_, err := io.WriteString(again, strings.Replace(alice, "1111", "4444", 1)+"beat")
			require.NoError(t, err)
			n, _ := io.Copy(io.Discard, again)
			require.Zero(t, n)
			require.Equal(t, "192.0.2.1:4444 full", receive(t, ends))

			first.Close()
			require.Equal(t, "192.0.2.1:1111 peer", receive(t, ends))
			greet(t, p.dial(t), alice, "beat")
			for range 3 { // its own connections are none of a client's
				greet(t, p.dial(t), check, "beat")
			}
			require.Equal(t, 6, p.k.Len())
			require.Len(t, p.closed, 1)
			for g := range p.k.Guards() {
				require.Equal(t, g.Conn().(*nbio.Conn).RemoteAddr().String(), g.RemoteAddr(t.Context()).String())
			}
		})
	}
}

func TestAHeaderMayComeInPieces(t *testing.T) {
	t.Parallel()
	p := runProxied(t, nbio.Config{}, keepalive.Config{Timeout: time.Minute}, here)
	for _, header := range []string{alice, bob, carol, check} {
		c := p.dial(t)
		for i := range len(header) {
			_, err := c.Write([]byte{header[i]})
			require.NoError(t, err)
			if i%8 == 0 {
				time.Sleep(ms) // for a read of its own
			}
		}
		greet(t, c, "", "beat")
		_, err := io.WriteString(c, alice) // now it is the client's own
		require.NoError(t, err)
		hear(t, c, alice)
	}
}

func TestConnectionsThatAreNotLetIn(t *testing.T) {
	t.Parallel()
	for says, cfg := range map[string]proxyprotocol.Config{
		"GET / HTTP/1.1\r\n\r\n":                         here,
		"PROXY TCP4 192.0.2.1 192.0.2.9 -1 80\r\n":       here,
		check[:14] + "\xff\xff" + strings.Repeat("x", 9): here,
		alice + "beat": elsewhere,
	} {
		p := runProxied(t, nbio.Config{}, keepalive.Config{Timeout: time.Minute}, cfg)
		c := p.dial(t)
		_, _ = io.WriteString(c, says)
		n, _ := io.Copy(io.Discard, c)
		require.Zero(t, n)
		require.Eventually(t, func() bool { return p.k.Len() == 0 }, eternal, ms)
		require.Empty(t, p.opened)
		require.Empty(t, p.closed)
	}
}

// Bytes of the header are no life, and without all of it the program hears of nobody.
func TestASlowHeaderIsNoLife(t *testing.T) {
	t.Parallel()
	ends := make(chan keepalive.Reason, 3)
	p := runProxied(t, nbio.Config{}, keepalive.Config{
		Timeout: time.Minute, Tick: 10 * ms, FirstMessage: timeout,
		OnClose: func(_ any, reason keepalive.Reason) { ends <- reason },
	}, here)
	begin := time.Now()
	slow, _, silent := p.dial(t), p.dial(t), p.dial(t)
	_, err := io.WriteString(silent, alice)
	require.NoError(t, err)
	go func() {
		for _, b := range []byte("PROXY UNKNOWN " + strings.Repeat("x", 80)) {
			time.Sleep(timeout / 20)
			if _, err := slow.Write([]byte{b}); err != nil {
				return
			}
		}
	}()
	for range 3 {
		require.Equal(t, keepalive.ReasonFirstMessage, receive(t, ends))
		require.GreaterOrEqual(t, time.Since(begin), timeout)
	}
	require.Equal(t, "192.0.2.1:1111", receive(t, p.opened))
	require.Equal(t, keepalive.ReasonFirstMessage, receive(t, p.closed))
	require.Empty(t, p.opened)
	require.Empty(t, p.closed)
}

func TestOptionalHeaders(t *testing.T) {
	t.Parallel()
	for _, cfg := range []proxyprotocol.Config{here, elsewhere} {
		cfg.Optional = true
		p := runProxied(t, nbio.Config{}, keepalive.Config{Timeout: time.Minute}, cfg)
		c := p.dial(t)
		_, err := io.WriteString(c, "PR") // it may be a header
		require.NoError(t, err)
		time.Sleep(10 * ms)
		_, err = io.WriteString(c, "IVATE")
		require.NoError(t, err)
		hear(t, c, "helloPRIVATE")
		require.Equal(t, c.LocalAddr().String(), receive(t, p.opened))
	}
}

func TestHeadersWithoutAKeeper(t *testing.T) {
	t.Parallel()
	p := runProxied(t, nbio.Config{}, keepalive.Config{}, here)
	require.NoError(t, p.k.Close())
	c := p.dial(t)
	greet(t, c, alice, "beat")
	c.Close()
	require.ErrorIs(t, receive(t, p.closed), io.EOF)
}

// The engine may close a connection while the program hears of it: the end comes after the beginning.
func TestTheEndComesAfterTheBeginning(t *testing.T) {
	t.Parallel()
	p := runProxied(t, nbio.Config{}, keepalive.Config{Timeout: time.Minute}, here)
	heard := make(chan bool, 9)
	p.OnOpen(func(c *nbio.Conn) {
		_ = c.Close()
		time.Sleep(20 * ms)
		c.SetSession("begun")
		heard <- true
	})
	c := p.dial(t)
	_, err := io.WriteString(c, alice+"beat")
	require.NoError(t, err)
	receive(t, p.closed) // which looks for the session
	require.Len(t, heard, 1)
	require.Eventually(t, func() bool { return p.k.Stats().Closed[keepalive.ReasonLocal] == 1 }, eternal, ms)
}

func TestWrapProxiedWithoutProxies(t *testing.T) {
	t.Parallel()
	k := newKeeper(t, keepalive.Config{})
	_, err := WrapProxied(nbio.NewEngine(nbio.Config{}), k, proxyprotocol.Config{})
	require.ErrorIs(t, err, keepalive.ErrArgument)
	e, err := WrapProxied(nbio.NewEngine(nbio.Config{}), k, here)
	require.NoError(t, err)
	require.PanicsWithValue(t, "nbiokeepalive: OnRead after WrapProxied, must be OnData", func() { e.OnRead(nil) })
}

// Each connection of the suite waits for a header that does not come.
func TestTheAdapterForNbioConformsBehindAProxy(t *testing.T) {
	t.Parallel()
	cfg := here
	cfg.Optional = true
	adaptertest.Run(t, adaptertest.Adapter{
		NoWait:   true,
		NoGoexit: true,
		Start: func(t *testing.T, k *keepalive.Keeper, handle adaptertest.Handler) net.Addr {
			e, err := WrapProxied(nbio.NewEngine(nbio.Config{Network: "tcp", Addrs: []string{"127.0.0.1:0"}}), k, cfg)
			require.NoError(t, err)
			e.OnOpen(func(c *nbio.Conn) { c.SetSession(new(lines)) })
			e.OnData(func(c *nbio.Conn, data []byte) { handleLines(c, data, handle) })
			return start(t, e)
		},
	})
}
