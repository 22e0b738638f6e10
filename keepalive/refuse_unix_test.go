//go:build unix

package keepalive

import (
	"bytes"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/heartwheel-go/heartwheel/internal/certtest"
	"github.com/heartwheel-go/heartwheel/internal/rlimit"
)

const sorry = "sorry, there is no room\n"

func saySorry(any, Reason) []byte { return []byte(sorry) }

// fullListener returns a listener whose Keeper has no room for more, and the connection that has the room.
func fullListener(t *testing.T, cfg Config, inside func(net.Conn) net.Conn) (k *Keeper, addr string) {
	cfg.Timeout, cfg.Room.MaxConns = eternal, 1
	k = newKeeper(t, cfg)
	_, c := connect(t, "tcp")
	k.Conn(c)
	plain := listen(t, "tcp")
	ln := k.Listener(layered{plain, inside})
	accepting := make(chan error, 1)
	go func() {
		_, err := ln.Accept()
		accepting <- err
	}()
	t.Cleanup(func() {
		require.NoError(t, ln.Close())
		require.ErrorIs(t, <-accepting, net.ErrClosed, "each was refused")
	})
	return k, plain.Addr().String()
}

func dialTo(t *testing.T, addr string) *net.TCPConn {
	c, err := net.Dial("tcp", addr)
	require.NoError(t, err)
	t.Cleanup(func() { c.Close() })
	require.NoError(t, c.SetDeadline(time.Now().Add(eternal)))
	return c.(*net.TCPConn)
}

// Whatever the peer has sent by the time of the close, it reads the words and an end, and no reset.
func TestARefusedPeerReadsTheLastWords(t *testing.T) {
	t.Parallel()
	asks := map[string]func(c *net.TCPConn){
		"asks":                    func(c *net.TCPConn) { fmt.Fprint(c, "hello\n") },
		"asks and ends its side":  func(c *net.TCPConn) { fmt.Fprint(c, "hello\n"); c.CloseWrite() },
		"says nothing":            func(*net.TCPConn) {},
		"says nothing, and ends":  func(c *net.TCPConn) { c.CloseWrite() },
		"asks for much":           func(c *net.TCPConn) { c.Write(make([]byte, 1<<20)) },
		"asks again and again":    func(c *net.TCPConn) { go io.Copy(c, &slowly{left: 20}) },
		"asks only after a while": func(c *net.TCPConn) { time.Sleep(100 * ms); fmt.Fprint(c, "hello\n") },
	}
	for name, inside := range map[string]func(net.Conn) net.Conn{
		"socket":   func(c net.Conn) net.Conn { return c },
		"a header": func(c net.Conn) net.Conn { return &headed{Conn: c} },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			k, addr := fullListener(t, Config{OnRefuse: saySorry, Closing: Closing{Timeout: time.Second}}, inside)
			for name, ask := range asks {
				c := dialTo(t, addr)
				ask(c)
				got, err := io.ReadAll(c)
				require.NoError(t, err, name)
				require.Equal(t, sorry, string(got), name)
				c.Close()
			}
			require.EqualValues(t, len(asks), k.Stats().RefusedFull)
			require.Equal(t, 1, k.Len())
			requireNoRefusals(t, k)
		})
	}
}

// slowly gives a byte now and then.
type slowly struct{ left int }

func (s *slowly) Read(p []byte) (int, error) {
	if s.left--; s.left < 0 {
		return 0, io.EOF
	}
	time.Sleep(5 * ms)
	return copy(p, "x"), nil
}

func requireNoRefusals(t *testing.T, k *Keeper) {
	require.Eventually(t, func() bool {
		k.refusals.mu.Lock()
		defer k.refusals.mu.Unlock()
		return k.refusals.all == nil
	}, eternal, ms)
}

// A peer that does not go has its time, and one that sends without an end has less. The server closes them.
func TestARefusedPeerHasNotForEver(t *testing.T) {
	t.Parallel()
	k, addr := fullListener(t, Config{OnRefuse: saySorry, Closing: Closing{Timeout: 500 * ms}}, func(c net.Conn) net.Conn { return c })
	stays, floods := dialTo(t, addr), dialTo(t, addr)
	begin := time.Now()
	for err := error(nil); err == nil; { // until a reset
		_, err = floods.Write(make([]byte, 1<<20))
		require.Less(t, time.Since(begin), eternal)
	}
	got, err := io.ReadAll(stays)
	require.NoError(t, err)
	require.Equal(t, sorry, string(got))
	for err := error(nil); err == nil; time.Sleep(ms) {
		_, err = stays.Write([]byte("x"))
		require.Less(t, time.Since(begin), eternal)
	}
	requireNoRefusals(t, k)
}

// There are no words without a place for them, and a panic is none.
func TestRefusalsWithoutWords(t *testing.T) {
	t.Parallel()
	cert, _ := certtest.New(t)
	same := func(c net.Conn) net.Conn { return c }
	for name, c := range map[string]struct {
		onRefuse func(any, Reason) []byte
		inside   func(net.Conn) net.Conn
	}{
		"none":       {nil, same},
		"nothing":    {func(any, Reason) []byte { return nil }, same},
		"a panic":    {func(any, Reason) []byte { panic("no words") }, same},
		"TLS inside": {saySorry, func(c net.Conn) net.Conn { return tls.Server(c, &tls.Config{Certificates: []tls.Certificate{cert}}) }},
		"hidden":     {saySorry, func(c net.Conn) net.Conn { return hiding{c} }},
	} {
		t.Run(name, func(t *testing.T) {
			k, addr := fullListener(t, Config{OnRefuse: c.onRefuse}, c.inside)
			got, _ := io.ReadAll(dialTo(t, addr))
			require.Empty(t, got)
			require.Equal(t, name == "a panic", k.Stats().Panics == 1)
			requireNoRefusals(t, k)
		})
	}
}

// A flood has no more descriptors than there may be, and leaves none.
func TestAFloodOfRefusalsLeavesNothing(t *testing.T) {
	const peers = 1200
	k, addr := fullListener(t, Config{OnRefuse: saySorry, Closing: Closing{Timeout: 10 * time.Second}}, func(c net.Conn) net.Conn { return c })
	var all sync.WaitGroup
	errs := make(chan error, peers)
	conns := make([]net.Conn, peers)
	for i := range conns {
		conns[i] = dialTo(t, addr)
	}
	require.Eventually(t, func() bool { return k.Stats().RefusedFull == peers }, eternal, ms)
	k.refusals.mu.Lock()
	require.LessOrEqual(t, len(k.refusals.all), rlimit.Refusals())
	k.refusals.mu.Unlock()
	for i, c := range conns {
		all.Go(func() {
			defer c.Close()
			if i < peers-rlimit.MaxRefusals { // it was closed at once
				return
			}
			if _, err := c.Write([]byte("hello\n")); err != nil {
				errs <- err
			} else if got, err := io.ReadAll(c); err != nil || !bytes.Equal(got, []byte(sorry)) {
				errs <- errors.Join(err, fmt.Errorf("%q", got))
			}
		})
	}
	all.Wait()
	close(errs)
	for err := range errs {
		require.NoError(t, err)
	}
	requireNoRefusals(t, k)
}

// The address, and so the key, comes with the first bytes. The program gets the reason.
func TestTheLastWordsBehindAHeader(t *testing.T) {
	t.Parallel()
	k := newKeeper(t, Config{Timeout: eternal, OnRefuse: saySorry, Room: Room{MaxPerKey: 1, Key: func(net.Addr) string { return "all" }}})
	for i := range 2 {
		peer, inner := connect(t, "tcp")
		conn := k.Conn(&headed{Conn: inner, header: 3})
		_, err := peer.Write([]byte("abchello\n"))
		require.NoError(t, err)
		_, err = conn.Read(make([]byte, 100))
		if i == 0 {
			require.NoError(t, err)
			continue
		}
		require.ErrorIs(t, err, ReasonFull)
		require.NoError(t, conn.Close())
		got, err := io.ReadAll(peer)
		require.NoError(t, err)
		require.Equal(t, sorry, string(got))
	}
}
