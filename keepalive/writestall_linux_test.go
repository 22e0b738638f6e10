package keepalive

import (
	"context"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"os"
	"path/filepath"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/heartwheel-go/heartwheel/internal/certtest"
)

// These tests are about WriteStall with real sockets, so the kernel tells of the peer.

const stall = 600 * ms

func newStallKeeper(t testing.TB, cfg Config) *Keeper {
	cfg.Timeout, cfg.Tick, cfg.WriteStall = time.Hour, 10*ms, stall
	return newKeeper(t, cfg)
}

// A peer reads for a while and then no more. It was held, and other bytes of it come all the time.
func TestAPeerThatTakesNoMoreIsClosed(t *testing.T) {
	t.Parallel()
	cert, roots := certtest.New(t)
	ours, theirs := &tls.Config{Certificates: []tls.Certificate{cert}}, &tls.Config{RootCAs: roots, ServerName: "127.0.0.1"}
	type wrap struct {
		name   string
		server func(k *Keeper, c net.Conn) (guarded, conn net.Conn)
		client func(c net.Conn) net.Conn
		write  func(t *testing.T, c net.Conn) error
	}
	download := func(_ *testing.T, c net.Conn) error { _, err := io.Copy(struct{ io.Writer }{c}, endless{}); return err }
	bare := func(c net.Conn) net.Conn { return c }
	plain := func(k *Keeper, c net.Conn) (net.Conn, net.Conn) { g := k.Conn(c); return g, g }
	for _, w := range []wrap{
		{"writes", plain, bare, download},
		{"transfer", plain, bare, func(_ *testing.T, c net.Conn) error { _, err := io.Copy(c, endless{}); return err }},
		{"buffers", plain, bare, func(_ *testing.T, c net.Conn) error {
			_, err := c.(io.ReaderFrom).ReadFrom(&net.Buffers{make([]byte, 32<<20), make([]byte, 32<<20)})
			return err
		}},
		{"sendfile", plain, bare, func(t *testing.T, c net.Conn) error {
			file, err := os.Create(filepath.Join(t.TempDir(), "f"))
			require.NoError(t, err)
			defer file.Close()
			require.NoError(t, file.Truncate(1<<30))
			_, err = io.Copy(c, file)
			return err
		}},
		{"TLS around it", func(k *Keeper, c net.Conn) (net.Conn, net.Conn) {
			g := k.Conn(c)
			return g, tls.Server(g, ours)
		}, func(c net.Conn) net.Conn { return tls.Client(c, theirs) }, download},
		{"TLS inside", func(k *Keeper, c net.Conn) (net.Conn, net.Conn) {
			g := k.Conn(tls.Server(c, ours))
			return g, g
		}, func(c net.Conn) net.Conn { return tls.Client(c, theirs) }, download},
		{"a header", func(k *Keeper, c net.Conn) (net.Conn, net.Conn) {
			g := k.Conn(&headed{Conn: c})
			return g, g
		}, bare, download},
		{"a socket that is hidden", func(k *Keeper, c net.Conn) (net.Conn, net.Conn) {
			g := k.Conn(hiding{c})
			return g, &timedWrites{Conn: g} // of the peer is known only when a Write has returned
		}, bare, download},
	} {
		t.Run(w.name, func(t *testing.T) {
			t.Parallel()
			k := newStallKeeper(t, Config{})
			outer, inner := connect(t, "tcp")
			guarded, conn := w.server(k, inner)
			client := w.client(outer)
			defer Of(guarded).Hold()()
			pause, over := longestPause(inner)
			defer over()
			ended := make(chan error, 1)
			go func() { ended <- w.write(t, conn) }()
			_, _ = io.ReadFull(client, make([]byte, 2<<20)) // on a slow machine it is over already
			require.ErrorIs(t, <-ended, ReasonWriteStall)
			waited := pause()
			if writes, ok := conn.(*timedWrites); ok {
				waited = writes.pause()
			}
			t.Logf("late by %v", waited-stall)
			require.GreaterOrEqual(t, waited, stall)
			require.Eventually(t, func() bool { return k.Stats().Closed[ReasonWriteStall] == 1 }, eternal, ms)
		})
	}
}

// timedWrites knows how long it took at most from the end of a Write to that of the next.
type timedWrites struct {
	net.Conn
	before, last time.Time // when the two last ones began
	longest      time.Duration
}

func (c *timedWrites) Write(p []byte) (int, error) {
	c.longest = c.pause()
	c.before, c.last = c.last, time.Now()
	return c.Conn.Write(p)
}

func (c *timedWrites) pause() time.Duration {
	if c.before.IsZero() {
		return 0
	}
	return max(c.longest, time.Since(c.before))
}

// A little waits, and the program writes no more. The peer has vanished, or takes nothing.
func TestAFewBytesThatWaitEndAConnection(t *testing.T) {
	t.Parallel()
	for name, lose := range map[string]func(t *testing.T, peer, conn net.Conn) (waiting time.Time){
		"vanished": func(t *testing.T, peer, conn net.Conn) time.Time {
			vanish(t, peer, conn)
			time.Sleep(2 * stall) // nothing waits
			return time.Now()
		},
		"full": func(t *testing.T, peer, conn net.Conn) time.Time {
			begin := time.Now()
			require.NoError(t, peer.(*net.TCPConn).SetReadBuffer(16<<10))
			for full := false; !full; {
				_ = conn.SetWriteDeadline(time.Now().Add(100 * ms))
				_, err := conn.Write(make([]byte, 1<<10))
				if err != nil && control(conn, func(fd uintptr) { full = !hasRoom(fd) }) != nil {
					break // on a slow machine it is over already
				}
			}
			_ = conn.SetWriteDeadline(time.Time{})
			return begin
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			k := newStallKeeper(t, Config{Activity: ActivityReadWrite})
			peer, inner := connect(t, "tcp")
			conn := k.Conn(inner)
			begin := lose(t, peer, conn)
			_, _ = conn.Write([]byte("x")) // on a slow machine it is over already
			_, err := conn.Read(make([]byte, 1))
			require.ErrorIs(t, err, ReasonWriteStall)
			t.Logf("late by %v", time.Since(begin)-stall)
			require.GreaterOrEqual(t, time.Since(begin), stall)
		})
	}
}

// A slow reader takes some in time, over several times as long. Then it takes no more.
func TestASlowReaderIsNotClosed(t *testing.T) {
	t.Parallel()
	for !testSlowTaker(t) {
		continue
	}
}

func testSlowTaker(t *testing.T) (steady bool) {
	k := newStallKeeper(t, Config{})
	peer, inner := connect(t, "tcp")
	require.NoError(t, inner.(*net.TCPConn).SetWriteBuffer(64<<10))
	require.NoError(t, peer.(*net.TCPConn).SetReadBuffer(64<<10))
	conn := k.Conn(inner)
	ended := make(chan error, 1)
	go func() { _, err := conn.Write(make([]byte, 64<<20)); ended <- err }()
	pause, over := longestPause(inner)
	defer over()
	begin, last := time.Now(), time.Now()
	for time.Since(begin) < 5*stall {
		_, err := io.ReadFull(peer, make([]byte, 64<<10))
		if time.Since(last) > stall/2 {
			return false
		}
		require.NoError(t, err, "after %v", time.Since(begin))
		last = time.Now()
		time.Sleep(stall / 10)
	}
	require.ErrorIs(t, <-ended, ReasonWriteStall)
	waited := pause()
	t.Logf("late by %v", waited-stall)
	require.GreaterOrEqual(t, waited, stall)
	return true
}

// longestPause watches the acknowledgements of a connection. pause returns how long it took at most from one to the next, or
// to now: a peer judged to take nothing may take some more before the close.
func longestPause(c net.Conn) (pause func() time.Duration, over func()) {
	var mu sync.Mutex
	longest, last := time.Duration(0), time.Now()
	done, gone := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(gone)
		for acked, before := uint64(0), time.Now(); ; {
			select {
			case <-done:
				return
			case <-time.After(ms):
			}
			now, at := uint64(0), time.Now()
			if control(c, func(fd uintptr) { now = ask(fd).acked }) != nil {
				return
			}
			if now != acked {
				mu.Lock()
				longest, last = max(longest, time.Since(last)), before
				mu.Unlock()
			}
			acked, before = now, at
		}
	}()
	return func() time.Duration {
		mu.Lock()
		defer mu.Unlock()
		return max(longest, time.Since(last))
	}, func() { close(done); <-gone }
}

// The kernel is to keep nothing for a peer that takes nothing, whatever the mode.
func TestAStalledPeerGetsNoFarewellAndAReset(t *testing.T) {
	t.Parallel()
	k := newStallKeeper(t, Config{Closing: Closing{
		Mode:     CloseHalf,
		Timeout:  eternal,
		Farewell: func(any, Reason) []byte { panic("asked for a farewell") },
	}})
	peer, inner := connect(t, "tcp")
	conn := k.Conn(inner)
	begin := time.Now()
	_, err := conn.Write(make([]byte, 64<<20))
	require.ErrorIs(t, err, ReasonWriteStall)
	require.Less(t, time.Since(begin), eternal)
	require.Eventually(t, func() bool {
		_, err := io.Copy(io.Discard, peer)
		return errors.Is(err, syscall.ECONNRESET)
	}, eternal, ms)
	require.Zero(t, k.Stats().Panics)
}

// The program holds the connection, and a drain waits for it.
func TestADrainEndsAStalledConnectionOnce(t *testing.T) {
	t.Parallel()
	k := newStallKeeper(t, Config{})
	_, inner := connect(t, "tcp")
	conn := k.Conn(inner)
	ended := make(chan error, 1)
	begin := time.Now()
	go func() { _, err := conn.Write(make([]byte, 64<<20)); ended <- err }()
	time.Sleep(stall / 2)
	ctx, cancel := context.WithTimeout(context.Background(), eternal)
	defer cancel()
	require.NoError(t, k.Drain(ctx, 0))
	err, want := <-ended, ReasonDrain
	if errors.Is(err, ReasonWriteStall) { // on a slow machine it was over already
		require.GreaterOrEqual(t, time.Since(begin), stall)
		want = ReasonWriteStall
	}
	require.ErrorIs(t, err, want)
	stats := k.Stats()
	require.Equal(t, map[Reason]uint64{want: 1}, stats.Closed)
}

// A Write over a Unix socket has its time, though the peer may have taken some of it.
func TestAWriteOverAUnixSocketMayStall(t *testing.T) {
	t.Parallel()
	k := newStallKeeper(t, Config{})
	peer, inner := connect(t, "unix")
	conn := k.Conn(inner)
	begin := time.Now()
	_, err := conn.Write(make([]byte, 64<<20))
	require.ErrorIs(t, err, ReasonWriteStall)
	require.GreaterOrEqual(t, time.Since(begin), stall)

	var room, full bool
	other, another := connect(t, "unix")
	require.NoError(t, control(other, func(fd uintptr) { room = hasRoom(fd) }))
	require.True(t, room)
	for !full {
		require.NoError(t, another.SetWriteDeadline(time.Now().Add(100*ms)))
		_, err = another.Write(make([]byte, 64<<20))
		require.Error(t, err)
		require.NoError(t, control(another, func(fd uintptr) { full = !hasRoom(fd) }))
	}
	peer.Close()
}

// The kernel's unsent bytes count, whether a call waits or not.
func TestBytesInTheKernelAreUnsent(t *testing.T) {
	t.Parallel()
	k := newKeeper(t, Config{Timeout: time.Hour, Tick: 10 * ms, MaxUnsent: 100 << 10})
	peer, inner := connect(t, "tcp")
	require.NoError(t, peer.(*net.TCPConn).SetReadBuffer(16<<10))
	require.NoError(t, inner.(*net.TCPConn).SetWriteBuffer(4<<20))
	conn := k.Conn(inner)
	_, err := conn.Write(make([]byte, 1<<20)) // all of it is in our socket
	require.NoError(t, err)
	_, err = conn.Read(make([]byte, 1))
	require.ErrorIs(t, err, ReasonMaxUnsent)
}

// A peer that has taken what there is may rest for as long as it likes, also one that has vanished. The end of our side is
// taken, too.
func TestNothingWaitsNothingStalls(t *testing.T) {
	t.Parallel()
	k := newStallKeeper(t, Config{})
	peer, inner := connect(t, "tcp")
	conn := k.Conn(inner)
	vanish(t, peer, conn)
	_, inner = connect(t, "tcp")
	half := k.Conn(inner)
	require.NoError(t, half.(interface{ CloseWrite() error }).CloseWrite())
	time.Sleep(4 * stall)
	require.Equal(t, 2, k.Len())
}
