package nbiokeepalive

import (
	"errors"
	"io"
	"net"
	"os"
	"path/filepath"
	"sync/atomic"
	"testing"
	"time"

	"github.com/lesismal/nbio"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/heartwheel-go/heartwheel/keepalive"
	"github.com/heartwheel-go/heartwheel/keepalive/adapter"
	"github.com/heartwheel-go/heartwheel/keepalive/nbiokeepalive/internal/conns"
	"github.com/heartwheel-go/heartwheel/keepalive/nbiokeepalive/internal/looptest"
)

const (
	ms      = time.Millisecond
	timeout = 300 * ms
	eternal = time.Minute
	bye     = "bye"
)

func sayBye(any, keepalive.Reason) []byte { return []byte(bye) }

func newKeeper(t testing.TB, cfg keepalive.Config) *keepalive.Keeper {
	t.Helper()
	k, err := keepalive.New(cfg)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, k.Close()) })
	return k
}

// program is a server with notes of what it hears.
type program struct {
	*Engine
	k      *keepalive.Keeper
	addr   net.Addr
	opened chan *nbio.Conn
	closed chan error
}

// run starts a server. onData may be nil.
func run(t testing.TB, cfg keepalive.Config, onData func(c *nbio.Conn, data []byte)) *program {
	t.Helper()
	p := prepare(t, cfg)
	if onData != nil {
		p.OnData(onData)
	}
	p.addr = start(t, p.Engine)
	return p
}

// prepare is run without the start.
func prepare(t testing.TB, cfg keepalive.Config) *program {
	t.Helper()
	k := newKeeper(t, cfg)
	p := &program{
		k: k, Engine: newEngine(nbio.Config{}, k),
		opened: make(chan *nbio.Conn, 100), closed: make(chan error, 100),
	}
	p.OnOpen(func(c *nbio.Conn) { p.opened <- c })
	p.OnClose(func(_ *nbio.Conn, err error) { p.closed <- err })
	return p
}

// dial opens a connection, and returns the server's side of it, too.
func (p *program) dial(t testing.TB) (net.Conn, *nbio.Conn) {
	t.Helper()
	client, err := net.Dial(p.addr.Network(), p.addr.String())
	require.NoError(t, err)
	t.Cleanup(func() { client.Close() })
	require.NoError(t, client.SetDeadline(time.Now().Add(eternal)))
	return client, receive(t, p.opened)
}

func receive[T any](t testing.TB, from chan T) (got T) {
	t.Helper()
	select {
	case got = <-from:
	case <-time.After(eternal):
		t.Fatal("nothing comes")
	}
	return got
}

func TestWrapNeedsBoth(t *testing.T) {
	t.Parallel()
	const want = "nbiokeepalive: Wrap needs an engine and a Keeper from keepalive.New"
	require.PanicsWithValue(t, want, func() { Wrap(nil, newKeeper(t, keepalive.Config{})) })
	require.PanicsWithValue(t, want, func() { Wrap(nbio.NewEngine(nbio.Config{}), nil) })
	require.PanicsWithValue(t, want, func() { Wrap(nbio.NewEngine(nbio.Config{}), new(keepalive.Keeper)) })
}

// The session is the program's, and OnClose is told why.
func TestSilentConnectionIsClosed(t *testing.T) {
	t.Parallel()
	p := run(t, keepalive.Config{Timeout: eternal}, nil)
	client, c := p.dial(t)
	c.SetSession("mine")
	g := keepalive.Of(c)
	require.NotNil(t, g)
	begun := time.Now()
	_, err := g.SetTimeout(timeout)
	require.NoError(t, err)
	_, err = io.ReadAll(client)
	require.NoError(t, err)
	require.GreaterOrEqual(t, time.Since(begun), timeout)
	require.ErrorIs(t, receive(t, p.closed), keepalive.ErrIdleTimeout)
	require.Equal(t, "mine", c.Session())
	require.False(t, keepalive.Touch(c))
	require.Eventually(t, func() bool { return keepalive.Of(c) == nil }, eternal, ms, "nothing is kept")
}

// A program may have set no function at all.
func TestEngineWithoutFunctionsGuards(t *testing.T) {
	t.Parallel()
	k := newKeeper(t, keepalive.Config{Timeout: timeout})
	client, err := net.Dial("tcp", start(t, newEngine(nbio.Config{}, k)).String())
	require.NoError(t, err)
	defer client.Close()
	_, err = io.ReadAll(client)
	require.NoError(t, err)
	require.Eventually(t, func() bool { return k.Stats().Closed[keepalive.ReasonIdle] == 1 }, eternal, ms)
}

// A deadline of nbio's is the program's. The Keeper counts its end, and does not stop it.
func TestDeadlinesAreThePrograms(t *testing.T) {
	t.Parallel()
	p := run(t, keepalive.Config{Timeout: eternal}, nil)
	_, c := p.dial(t)
	require.NoError(t, c.SetReadDeadline(time.Now().Add(timeout)))
	require.Error(t, receive(t, p.closed))
	require.Eventually(t, func() bool { return p.k.Stats().Closed[keepalive.ReasonLocal] == 1 }, eternal, ms)
}

func TestOtherErrorsOfTheProgramAreItsOwn(t *testing.T) {
	t.Parallel()
	p := run(t, keepalive.Config{Timeout: eternal}, nil)
	_, c := p.dial(t)
	own := errors.New("a protocol error")
	require.NoError(t, c.CloseWithError(own))
	require.Equal(t, own, receive(t, p.closed))
	require.Eventually(t, func() bool { return p.k.Stats().Closed[keepalive.ReasonLocal] == 1 }, eternal, ms)
}

// The only bytes have left the socket, and wait for a slow program that has not touched the
// connection yet.
func TestSlowProgramLosesNoPeer(t *testing.T) {
	t.Parallel()
	slow := func(c *nbio.Conn) {
		time.Sleep(3 * timeout)
		keepalive.Touch(c)
		_, _ = c.Write([]byte("done"))
	}
	for name, onData := range map[string]func(c *nbio.Conn, data []byte){
		"in OnData": func(c *nbio.Conn, _ []byte) { slow(c) },
		"in a job":  func(c *nbio.Conn, _ []byte) { go c.Execute(func() { slow(c) }) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := run(t, keepalive.Config{Timeout: timeout, Tick: 10 * ms, Activity: keepalive.ActivityManual}, onData)
			for quick := false; !quick; { // a busy machine may be late with the bytes
				begun := time.Now()
				client, _ := p.dial(t)
				_, err := client.Write([]byte("work"))
				quick = time.Since(begun) < timeout/2
				got, errRead := io.ReadAll(client)
				require.ErrorIs(t, receive(t, p.closed), keepalive.ErrIdleTimeout)
				if quick {
					require.NoError(t, err)
					require.NoError(t, errRead)
					require.Equal(t, "done", string(got))
				}
			}
		})
	}
}

// The farewell comes behind megabytes for a slow peer, which nbio would drop with its close.
func TestFarewellComesBehindTheQueue(t *testing.T) {
	t.Parallel()
	const size = 16 << 20
	for _, mode := range []keepalive.CloseMode{keepalive.CloseGraceful, keepalive.CloseHalf} {
		for name, farewell := range map[string]string{"farewell": bye, "none": ""} {
			t.Run(mode.String()+"/"+name, func(t *testing.T) {
				t.Parallel()
				p := run(t, keepalive.Config{Timeout: eternal, Closing: keepalive.Closing{
					Mode: mode, Timeout: eternal,
					Farewell: func(any, keepalive.Reason) []byte { return []byte(farewell) },
				}}, nil)
				client, c := p.dial(t)
				_, err := c.Write(make([]byte, size))
				require.NoError(t, err)
				require.True(t, keepalive.Of(c).Close(keepalive.ReasonMaxAge))
				got, err := io.ReadAll(client)
				require.NoError(t, err)
				require.Len(t, got, size+len(farewell))
				require.Equal(t, farewell, string(got[size:]))
				client.Close()
				require.ErrorIs(t, receive(t, p.closed), keepalive.ReasonMaxAge)
			})
		}
	}
}

// A peer that reads nothing gets Closing.Timeout.
func TestQueueHasNotForEver(t *testing.T) {
	t.Parallel()
	p := run(t, keepalive.Config{Timeout: eternal, Closing: keepalive.Closing{Timeout: timeout, Farewell: sayBye}}, nil)
	_, c := p.dial(t)
	_, err := c.Write(make([]byte, 16<<20))
	require.NoError(t, err)
	begun := time.Now()
	require.True(t, keepalive.Of(c).Close(keepalive.ReasonMaxAge))
	require.ErrorIs(t, receive(t, p.closed), keepalive.ReasonMaxAge)
	require.GreaterOrEqual(t, time.Since(begun), timeout)
}

// After our side is closed, the peer may send adapter.MaxLinger bytes, also to a program that
// reads by itself.
func TestLingeringIsBounded(t *testing.T) {
	t.Parallel()
	for name, reads := range map[string]bool{"OnData": false, "OnRead": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var heard atomic.Int64
			onData := func(_ *nbio.Conn, data []byte) { heard.Add(int64(len(data))) }
			p := prepare(t, keepalive.Config{Timeout: eternal, Closing: keepalive.Closing{
				Mode: keepalive.CloseHalf, Timeout: eternal, Farewell: sayBye,
			}})
			p.OnData(onData)
			if reads {
				p.OnRead(func(c *nbio.Conn) { readAll(c, onData) })
			}
			p.addr = start(t, p.Engine)
			client, c := p.dial(t)
			require.True(t, keepalive.Of(c).Close(keepalive.ReasonMaxAge))
			got, err := io.ReadAll(client)
			require.NoError(t, err)
			require.Equal(t, bye, string(got))
			n := 0
			for err == nil && n < 100*adapter.MaxLinger {
				var written int
				written, err = client.Write(make([]byte, 64<<10))
				n += written
			}
			require.Error(t, err)
			require.NotErrorIs(t, err, os.ErrDeadlineExceeded)
			require.Greater(t, n, adapter.MaxLinger)
			require.ErrorIs(t, receive(t, p.closed), keepalive.ReasonMaxAge)
			require.Zero(t, heard.Load())
		})
	}
}

// The program closes a connection between the Keeper's decision and its End. OnClose is called
// once all the same, with the reason of the Keeper, after Farewell has returned.
func TestProgramClosesDuringFarewell(t *testing.T) {
	t.Parallel()
	var ends atomic.Int32
	returned := make(chan bool, 1)
	var p *program
	p = prepare(t, keepalive.Config{
		Timeout: timeout,
		OnClose: func(any, keepalive.Reason) { ends.Add(1) },
		Closing: keepalive.Closing{Farewell: func(conn any, _ keepalive.Reason) []byte {
			_ = conn.(*nbio.Conn).Close()
			assert.ErrorIs(t, receive(t, p.closed), keepalive.ErrIdleTimeout)
			time.Sleep(50 * ms)
			returned <- assert.Zero(t, ends.Load())
			return []byte(bye)
		}},
	})
	p.addr = start(t, p.Engine)
	_, c := p.dial(t)
	require.True(t, receive(t, returned))
	require.Eventually(t, func() bool { return keepalive.Of(c) == nil && p.k.Stats().Leaving == 0 }, eternal, ms)
	require.EqualValues(t, 1, ends.Load())
	require.EqualValues(t, 1, p.k.Stats().Closed[keepalive.ReasonIdle])
}

// After Keeper.Close nothing is kept of a connection, either.
func TestConnectionsOfAClosedKeeperGo(t *testing.T) {
	t.Parallel()
	p := run(t, keepalive.Config{Timeout: eternal}, nil)
	client, c := p.dial(t)
	require.NoError(t, p.k.Close())
	require.False(t, keepalive.Touch(c))
	require.NoError(t, client.Close())
	require.ErrorIs(t, receive(t, p.closed), io.EOF)
	require.Eventually(t, func() bool { return keepalive.Of(c) == nil }, eternal, ms)
}

// The program hears nothing of a refused connection, although bytes have come with it.
func TestRefusedConnectionIsNotHeardOf(t *testing.T) {
	t.Parallel()
	var heard atomic.Int64
	p := run(t, keepalive.Config{Timeout: eternal, Room: keepalive.Room{MaxConns: 1}},
		func(_ *nbio.Conn, data []byte) { heard.Add(int64(len(data))) })
	first, _ := p.dial(t)
	for range 20 {
		client, err := net.Dial("tcp", p.addr.String())
		require.NoError(t, err)
		defer client.Close()
		_, _ = client.Write([]byte("hello"))
		_, err = io.ReadAll(client)
		if err != nil {
			require.ErrorContains(t, err, "reset")
		}
	}
	require.Empty(t, p.opened)
	require.Empty(t, p.closed)
	require.Zero(t, heard.Load())
	require.EqualValues(t, 20, p.k.Stats().RefusedFull)
	_, err := first.Write([]byte("hello"))
	require.NoError(t, err)
	require.Eventually(t, func() bool { return heard.Load() == 5 }, eternal, ms)
}

// Dialled connections are guarded before the program hears of them.
// A goroutine of nbio's has read bytes, and hands them over when all is over.
func TestBytesAfterTheEndAreNotForTheProgram(t *testing.T) {
	p := run(t, keepalive.Config{}, nil)
	client, conn := p.dial(t)
	c, ok := conns.Enter(conn, &[]byte{0})
	require.True(t, ok)
	c.Leave()
	client.Close()
	receive(t, p.closed)
	require.Eventually(t, func() bool { return conns.Of(conn) == nil }, eternal, ms)
	_, ok = conns.Enter(conn, &[]byte{0})
	require.False(t, ok)
}

func TestDialledConnectionsAreGuarded(t *testing.T) {
	t.Parallel()
	p := run(t, keepalive.Config{Timeout: eternal, Room: keepalive.Room{MaxConns: 2}}, nil)
	peer, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer peer.Close()

	added, err := nbio.Dial("tcp", peer.Addr().String())
	require.NoError(t, err)
	_, err = p.AddConn(added)
	require.NoError(t, err)
	require.NotNil(t, keepalive.Of(receive(t, p.opened)))

	type dialled struct {
		err     error
		guarded bool
	}
	results := make(chan dialled, 1)
	dial := func() dialled {
		require.NoError(t, p.DialAsync("tcp", peer.Addr().String(), func(c *nbio.Conn, err error) {
			results <- dialled{err, keepalive.Touch(c)}
		}))
		return receive(t, results)
	}
	require.Equal(t, dialled{nil, true}, dial())
	require.Equal(t, dialled{keepalive.ReasonFull, false}, dial())
	for g := range p.k.Guards() {
		require.True(t, g.Close(keepalive.ReasonEvicted))
		require.ErrorIs(t, receive(t, p.closed), keepalive.ReasonEvicted)
	}
	require.Empty(t, p.closed, "not for the refused one")
}

// A dialled connection may be closed before the program hears of it. nbio's goroutines for the two
// are not the same.
func TestDialledConnectionClosedAtOnceIsForgotten(t *testing.T) {
	t.Parallel()
	p := run(t, keepalive.Config{Timeout: eternal}, nil)
	peer, err := net.Listen("unix", filepath.Join(t.TempDir(), "peer"))
	require.NoError(t, err)
	defer peer.Close()
	go func() {
		for {
			c, err := peer.Accept()
			if err != nil {
				return
			}
			c.Close()
		}
	}()
	connected := make(chan *nbio.Conn, 1)
	for range 500 {
		if p.DialAsync("unix", peer.Addr().String(), func(c *nbio.Conn, _ error) { connected <- c }) != nil {
			continue // too early for the peer
		}
		c := receive(t, connected)
		_ = receive(t, p.closed)
		require.Eventually(t, func() bool { return keepalive.Of(c) == nil && p.k.Len() == 0 }, eternal, ms/10)
	}
}

func TestDatagramsPassThrough(t *testing.T) {
	t.Parallel()
	k := newKeeper(t, keepalive.Config{Timeout: timeout})
	e := newEngine(nbio.Config{Network: "udp", Addrs: []string{"127.0.0.1:0"}}, k)
	e.OnData(func(c *nbio.Conn, data []byte) {
		if keepalive.Of(c) == nil {
			_, _ = c.Write(data)
		}
	})
	require.NoError(t, e.Start())
	looptest.Await(t)
	defer e.Stop()
	client, err := net.Dial("udp", e.Addrs[0])
	require.NoError(t, err)
	defer client.Close()
	require.NoError(t, client.SetDeadline(time.Now().Add(eternal)))
	_, err = client.Write([]byte("hello"))
	require.NoError(t, err)
	buf := make([]byte, 10)
	n, err := client.Read(buf)
	require.NoError(t, err)
	require.Equal(t, "hello", string(buf[:n]))
}

// The engine goes down with its connections open, some of them silent.
func TestEngineStops(t *testing.T) {
	t.Parallel()
	k := newKeeper(t, keepalive.Config{Timeout: timeout})
	e := newEngine(nbio.Config{}, k)
	require.NoError(t, e.Start())
	looptest.Await(t)
	const conns = 50
	for range conns {
		client, err := net.Dial("tcp", e.Addrs[0])
		require.NoError(t, err)
		defer client.Close()
	}
	require.Eventually(t, func() bool { return k.Stats().Opened == conns }, eternal, ms)
	time.Sleep(timeout)
	e.Stop()
	require.Zero(t, k.Len())
	require.Eventually(t, func() bool { // the Keeper may be about to close some
		closed := k.Stats().Closed
		return closed[keepalive.ReasonIdle]+closed[keepalive.ReasonLocal] == conns
	}, eternal, ms)
}
