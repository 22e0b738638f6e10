package keepalive

import (
	"errors"
	"io"
	"log/slog"
	"net"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/heartwheel-go/heartwheel/internal/logtest"
)

func TestIdlestIsEvicted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var c closings
		k := newKeeper(t, Config{Timeout: time.Minute, Room: Room{MaxConns: 3, Full: FullEvict, MinIdle: 5 * time.Second}, OnClose: c.add})
		conns := make([]net.Conn, 3)
		for i := range conns {
			conns[i], _ = pipe(k)
			time.Sleep(time.Second)
		}
		require.True(t, Touch(conns[0]), "so the second is the idlest, for two seconds")
		refused, _ := pipe(k)
		_, err := refused.Read(make([]byte, 1))
		require.ErrorIs(t, err, ReasonFull)
		release := Of(conns[1]).Hold()
		time.Sleep(10 * time.Second)
		one, _ := pipe(k)
		synctest.Wait()
		require.Equal(t, []closing{{conns[2], ReasonEvicted}}, c.list(), "the idlest is held")
		require.Equal(t, 3, k.Len())
		release()
		two, _ := pipe(k)
		synctest.Wait()
		require.ElementsMatch(t, []closing{{conns[2], ReasonEvicted}, {conns[0], ReasonEvicted}}, c.list())
		_, err = conns[0].Read(make([]byte, 1))
		require.ErrorIs(t, err, ReasonEvicted)
		require.False(t, Touch(conns[0]))
		require.True(t, Touch(conns[1]))
		require.True(t, Touch(one))
		require.True(t, Touch(two))
		require.Equal(t, 3, k.Len())
		require.True(t, ReasonEvicted.Retryable())
	})
}

// Nobody is promised the place of a held connection.
func TestMaxConnsHoldsIfAllConnectionsAreHeld(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := newKeeper(t, Config{Timeout: time.Minute, Room: Room{MaxConns: 10, Full: FullEvict}})
		var releases []func()
		for range 10 {
			c, _ := pipe(k)
			releases = append(releases, Of(c).Hold())
		}
		for range 20 {
			time.Sleep(5 * time.Second)
			c, _ := pipe(k)
			Of(c).Hold()
			synctest.Wait()
			require.Equal(t, 10, k.Len())
		}
		require.EqualValues(t, 20, k.Stats().RefusedFull)
		releases[3]()
		time.Sleep(5 * time.Second)
		pipe(k)
		synctest.Wait()
		require.Equal(t, 10, k.Len())
		require.EqualValues(t, 1, k.Stats().Closed[ReasonEvicted])
	})
}

// Accept waits before it takes a connection, so the others wait in the kernel's queue.
func TestListenerWaitsForRoom(t *testing.T) {
	k := newKeeper(t, Config{Timeout: time.Minute, Room: Room{MaxConns: 2, Full: FullWait}})
	inner, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	ln := k.Listener(inner)
	accepted, failed := make(chan net.Conn), make(chan error)
	go func() {
		for {
			c, err := ln.Accept()
			if err != nil {
				failed <- err
				return
			}
			accepted <- c
		}
	}()
	for range 5 {
		c, err := net.Dial("tcp", inner.Addr().String())
		require.NoError(t, err)
		t.Cleanup(func() { _ = c.Close() })
	}
	conns := []net.Conn{<-accepted, <-accepted}
	for range 3 {
		select {
		case <-accepted:
			require.Fail(t, "there is no room")
		case <-time.After(50 * ms):
		}
		require.NoError(t, conns[0].Close())
		conns = append(conns[1:], <-accepted)
	}
	require.NoError(t, ln.Close())
	require.ErrorIs(t, <-failed, net.ErrClosed)
	for _, c := range conns {
		require.NoError(t, c.Close())
	}
}

// Two listeners may wait for the same room. The later one has to wait again, with a connection
// already accepted.
func TestListenersShareTheRoomTheyWaitFor(t *testing.T) {
	t.Parallel()
	const clients, room = 20, 3
	k := newKeeper(t, Config{Timeout: time.Minute, Room: Room{MaxConns: room, Full: FullWait}})
	var at, most atomic.Int64
	serve := func(conn net.Conn) {
		defer conn.Close()
		now := at.Add(1)
		defer at.Add(-1)
		for before := most.Load(); now > before && !most.CompareAndSwap(before, now); {
			before = most.Load()
		}
		time.Sleep(10 * ms)
		_, _ = conn.Write([]byte("x"))
	}
	var addresses []string
	for range 2 {
		inner := listen(t, "tcp")
		addresses = append(addresses, inner.Addr().String())
		ln := k.Listener(inner)
		t.Cleanup(func() { ln.Close() })
		go func() {
			for {
				conn, err := ln.Accept()
				if err != nil {
					return
				}
				go serve(conn)
			}
		}()
	}
	var wg sync.WaitGroup
	for i := range clients {
		wg.Go(func() {
			conn, err := net.Dial("tcp", addresses[i%2])
			if err != nil {
				t.Error(err)
				return
			}
			defer conn.Close()
			if got, err := io.ReadAll(conn); string(got) != "x" || err != nil {
				t.Errorf("client %d: %q, %v", i, got, err)
			}
		})
	}
	wg.Wait()
	require.LessOrEqual(t, most.Load(), int64(room))
	require.Zero(t, k.Stats().RefusedFull)
	require.Eventually(t, func() bool { return k.Stats().Closed[ReasonLocal] == clients }, eternal, ms)
}

// addrConn is a connection from an address. As with the PROXY protocol, the address is known
// only after the first read.
type addrConn struct {
	net.Conn
	addr net.Addr
	mu   sync.Mutex
	read bool
}

func (c *addrConn) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	c.mu.Lock()
	defer c.mu.Unlock()
	c.read = true
	return n, err
}

func (c *addrConn) RemoteAddr() net.Addr {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.read {
		panic("would block")
	}
	return c.addr
}

func TestMaxPerKeyGoesByTheOuterAddress(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var c closings
		k := newKeeper(t, Config{Timeout: time.Minute, Room: Room{MaxPerKey: 2}, OnClose: c.add})
		from := func(ip string) (net.Conn, error) {
			a, b := net.Pipe()
			conn := k.Conn(&addrConn{Conn: a, addr: &net.TCPAddr{IP: net.ParseIP(ip), Port: 5}})
			go func() { _, _ = b.Write([]byte("x")) }()
			_, err := conn.Read(make([]byte, 1))
			return conn, err
		}
		var kept []net.Conn
		for _, addr := range []struct {
			ip string
			ok bool
		}{
			{"192.0.2.1", true},
			{"192.0.2.1", true},
			{"192.0.2.1", false},
			{"192.0.2.2", true},
			{"2001:db8::1", true},
			{"2001:db8::2", true},
			{"2001:db8::3:4", false},
			{"2001:db8:0:1::1", true},
		} {
			conn, err := from(addr.ip)
			if addr.ok {
				require.NoError(t, err, addr.ip)
				kept = append(kept, conn)
			} else {
				require.ErrorIs(t, err, ReasonFull, addr.ip)
				_, err = conn.Write([]byte("x"))
				require.ErrorIs(t, err, ReasonFull)
				require.NoError(t, conn.Close())
			}
		}
		require.Equal(t, 6, k.Len())
		require.EqualValues(t, 2, k.Stats().Closed[ReasonFull])
		require.Equal(t, 4, k.shares.keys())
		for _, conn := range kept {
			require.NoError(t, conn.Close())
		}
		require.Zero(t, k.shares.keys())
		_, err := from("192.0.2.1")
		require.NoError(t, err)
		require.Len(t, c.list(), 8)
		time.Sleep(5 * time.Minute) // nobody reads, and the connection shows no socket
		require.Zero(t, k.shares.keys())
	})
}

// embedded is a connection wrapped by another listener. Its address has to wait for a read.
type embedded struct{ *net.TCPConn }

// The first read of a connection is a transfer, as in a proxy.
func TestMaxPerKeyAndTransfers(t *testing.T) {
	t.Parallel()
	for name, transfer := range map[string]func(upstream, c net.Conn){
		"Copy":     func(upstream, c net.Conn) { _, _ = io.Copy(upstream, c) },
		"ReadFrom": func(upstream, c net.Conn) { _, _ = upstream.(*tcpConn).ReadFrom(c) },
		"some of it": func(upstream, c net.Conn) {
			_, _ = upstream.(*tcpConn).ReadFrom(&io.LimitedReader{R: c, N: 1 << 20})
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			k, other := newKeeper(t, Config{Room: Room{MaxPerKey: 1}}), newKeeper(t, Config{})
			for range 3 {
				client, server := connect(t, "tcp")
				_, err := client.Write([]byte("hello"))
				require.NoError(t, err)
				_, upstream := connect(t, "tcp")
				go transfer(other.Conn(upstream), k.Conn(embedded{server.(*net.TCPConn)}))
			}
			require.Eventually(t, func() bool { return k.Len() == 1 }, eternal, ms)
			require.Eventually(t, func() bool { return k.Stats().Closed[ReasonFull] == 2 }, eternal, ms)
		})
	}
}

func TestMaxPerKeyAtTheListener(t *testing.T) {
	k := newKeeper(t, Config{
		Timeout: time.Minute,
		Room: Room{
			MaxPerKey: 3,
			Key: func(a net.Addr) string {
				return a.(*net.TCPAddr).IP.String()
			},
		},
	})
	inner, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	ln := k.Listener(inner)
	t.Cleanup(func() { _ = ln.Close() })
	accepted := make(chan net.Conn, 5)
	go func() {
		for {
			c, err := ln.Accept()
			if err != nil {
				return
			}
			accepted <- c
		}
	}()
	var peers []net.Conn
	for range 5 {
		c, err := net.Dial("tcp", inner.Addr().String())
		require.NoError(t, err)
		t.Cleanup(func() { _ = c.Close() })
		peers = append(peers, c)
	}
	for range 3 {
		c := <-accepted
		t.Cleanup(func() { _ = c.Close() })
	}
	for _, c := range peers[3:] {
		_, err := c.Read(make([]byte, 1))
		require.ErrorIs(t, err, io.EOF)
	}
	require.Empty(t, accepted)
	require.Equal(t, 3, k.Len())
}

// A panic in a function of the user's harms nobody but its own connection.
func TestPanicsOfAllCallbacks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		bad := errors.New("bad")
		all := Config{Timeout: time.Minute, Tick: 100 * ms}
		for name, cfg := range map[string]Config{
			"OnIdle":             {OnIdle: func(any, Reason) Verdict { panic(bad) }},
			"OnClose":            {OnClose: func(any, Reason) { panic(bad) }},
			"Probe.Send":         {Probe: Probing{Send: func(any) error { panic(bad) }}},
			"Closing.Farewell":   {Closing: Closing{Farewell: func(any, Reason) []byte { panic(bad) }}},
			"Age.OnMax":          {Age: Age{Max: 50 * time.Second, OnMax: func(any) { panic(bad) }}},
			"Room.Pressure.Used": {Room: Room{Pressure: Pressure{Used: func() float64 { panic(bad) }}}},
			"Room.Key":           {Room: Room{MaxPerKey: 1, Key: func(net.Addr) string { panic(bad) }}},
		} {
			var log logtest.Log
			cfg.Timeout, cfg.Tick, cfg.Logger = all.Timeout, all.Tick, log.Logger(slog.LevelError)
			k := newKeeper(t, cfg)
			conns := make([]net.Conn, 3)
			for i := range conns {
				a, b := net.Pipe()
				conns[i] = k.Conn(&addrConn{Conn: a, read: true})
				go func() { _, _ = b.Write([]byte("x")) }()
				_, err := conns[i].Read(make([]byte, 1))
				require.NoError(t, err)
			}
			time.Sleep(3 * time.Minute)
			for _, c := range conns {
				_, err := c.Read(make([]byte, 1))
				require.ErrorIs(t, err, net.ErrClosed, name)
			}
			synctest.Wait() // OnClose is called after the close
			require.Zero(t, k.Len(), name)
			require.GreaterOrEqual(t, k.Stats().Panics, uint64(3), name)
			require.Contains(t, log.String(), name+": bad")
			require.Contains(t, log.String(), "room_test.go", "the stack")
		}
	})
}

// A connection saved from its eviction is closed later like any other: not without need, and never early.
func TestConnectionSavedFromEvictionHasItsWholeTimeout(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := newKeeper(t, Config{Timeout: time.Hour, Room: Room{MaxConns: 2, Full: FullEvict}})
		saved, _ := pipe(k)
		other, _ := pipe(k)
		time.Sleep(10 * time.Second)
		require.True(t, Touch(other))
		g := Of(saved)
		release := g.Hold() // it has just been chosen
		g.mu.Lock()
		g.makeRare().state.Evicted = true
		g.mu.Unlock()
		require.True(t, g.timer.HandOver())
		synctest.Wait()
		release()
		begin := time.Now()
		require.Equal(t, 2, k.Len())
		require.NoError(t, other.Close())
		requireClosed(t, k, saved, ReasonIdle, begin, time.Hour)
	})
}

// Zero means a second, or the timeout if shorter: of the timeout in force.
func TestTheDefaultOfMinIdleFollowsTheTimeout(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cfg := Config{Timeout: 200 * ms, Room: Room{MaxConns: 1, Full: FullEvict}}
		k := newKeeper(t, cfg)
		cfg.Timeout = time.Minute
		require.NoError(t, k.Update(cfg))
		first, _ := pipe(k)
		time.Sleep(500 * ms)
		refused, _ := pipe(k)
		_, err := refused.Read(make([]byte, 1))
		require.ErrorIs(t, err, ReasonFull)
		time.Sleep(2 * time.Second)
		second, _ := pipe(k)
		_, err = first.Read(make([]byte, 1))
		require.ErrorIs(t, err, ReasonEvicted)

		cfg.Timeout = 200 * ms
		require.NoError(t, k.Update(cfg))
		_, err = Of(second).SetTimeout(time.Minute)
		require.NoError(t, err)
		time.Sleep(500 * ms)
		_, _ = pipe(k)
		_, err = second.Read(make([]byte, 1))
		require.ErrorIs(t, err, ReasonEvicted)
	})
}

func TestOneTooManyOfAPeerIsNotGuarded(t *testing.T) {
	k := newKeeper(t, Config{Room: Room{MaxPerKey: 1, Key: func(remote net.Addr) string { return remote.String() }}})
	alice := &net.UnixAddr{Name: "alice"}
	_, err := guardOf(k, alice)
	require.NoError(t, err)
	g, err := guardOf(k, alice)
	require.ErrorIs(t, err, ReasonFull)
	require.False(t, g.isOpen())
	g, err = guardOf(k, nil)
	require.NoError(t, err, "not known yet")
	require.True(t, g.isOpen())
	require.Zero(t, k.Stats().Panics, "Key is not asked about nobody")
	require.ErrorIs(t, k.Bind(g, nil, g.adapter, nil), ErrArgument, "it has been used")
}

// The connection is closed while Key is asked for a peer with an address known late.
func TestAShareTakenAfterTheEndIsGivenBack(t *testing.T) {
	var c net.Conn
	k := newKeeper(t, Config{Room: Room{MaxPerKey: 1, Key: func(net.Addr) string {
		require.NoError(t, c.Close())
		return "key"
	}}})
	var peer net.Conn
	c, peer = pipe(k)
	go func() { _, _ = peer.Write([]byte("x")) }()
	_, err := c.Read(make([]byte, 1))
	require.NoError(t, err)
	require.Zero(t, k.shares.keys())
}

// Each read could take one more share.
func TestAPeerIsIdentifiedOnce(t *testing.T) {
	k := newKeeper(t, Config{Room: Room{MaxPerKey: 2}})
	addr := &net.TCPAddr{IP: net.ParseIP("192.0.2.1"), Port: 5}
	for range 2 {
		a, b := net.Pipe()
		c := k.Conn(&addrConn{Conn: a, addr: addr})
		defer c.Close()
		go func() { _, _ = b.Write([]byte("xyz")) }()
		for range 3 {
			_, err := c.Read(make([]byte, 1))
			require.NoError(t, err)
		}
	}
	a, b := net.Pipe()
	c := k.Conn(&addrConn{Conn: a, addr: addr})
	go func() { _, _ = b.Write([]byte("x")) }()
	n, err := c.Read(make([]byte, 1))
	require.ErrorIs(t, err, ReasonFull)
	require.Zero(t, n)
}
