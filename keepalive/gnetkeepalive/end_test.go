package gnetkeepalive

import (
	"bytes"
	"io"
	"net"
	"path/filepath"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/panjf2000/gnet/v2"
	"github.com/stretchr/testify/require"

	"github.com/heartwheel-go/heartwheel/keepalive"
	"github.com/heartwheel-go/heartwheel/keepalive/adapter"
)

const bye = "bye"

func sayBye(any, keepalive.Reason) []byte { return []byte(bye) }

// addrOn returns an address for a server on TCP or on Unix sockets.
func addrOn(t testing.TB, network string) string {
	if network == "unix" {
		return "unix://" + filepath.Join(t.TempDir(), "s")
	}
	return "tcp://127.0.0.1:0"
}

func TestFarewellThenTheEnd(t *testing.T) {
	t.Parallel()
	for _, network := range []string{"tcp", "unix"} {
		for _, mode := range []keepalive.CloseMode{keepalive.CloseGraceful, keepalive.CloseHalf, keepalive.CloseReset} {
			t.Run(network+"/"+mode.String(), func(t *testing.T) {
				t.Parallel()
				w := observeOn(t, addrOn(t, network), keepalive.Config{Closing: keepalive.Closing{Farewell: sayBye, Mode: mode}}, &app{})
				c := w.dial(t)
				last := time.Now()
				say(t, c, "hello")
				got, err := io.ReadAll(c)
				require.GreaterOrEqual(t, time.Since(last), timeout)
				require.Equal(t, bye, string(got))
				if mode == keepalive.CloseReset && network == "tcp" {
					require.ErrorIs(t, err, syscall.ECONNRESET)
				} else {
					require.NoError(t, err)
				}
				require.NoError(t, c.Close())
				w.requireEnd(t, c, keepalive.ReasonIdle)
			})
		}
	}
}

// If both directions were closed, the peer's own bytes would cost it the farewell.
func TestHalfClosedPeerMayStillSend(t *testing.T) {
	t.Parallel()
	for _, activity := range []keepalive.Activity{keepalive.ActivityRead, keepalive.ActivityManual} {
		modes(t, func(t *testing.T, opts ...gnet.Option) {
			var heard atomic.Int64
			w := observe(t, keepalive.Config{
				Closing:  keepalive.Closing{Farewell: sayBye, Mode: keepalive.CloseHalf, Timeout: eternal},
				Activity: activity,
			}, &app{onTraffic: func(c gnet.Conn) gnet.Action {
				heard.Add(1)
				return echo(c)
			}}, opts...)
			c := w.dial(t)
			say(t, c, "hello")
			got, err := io.ReadAll(c)
			require.NoError(t, err)
			require.Equal(t, bye, string(got))
			require.Eventually(t, func() bool { return w.k.Len() == 0 }, eternal, ms)
			for range 20 {
				_, err := c.Write([]byte("and another thing"))
				require.NoError(t, err)
				time.Sleep(5 * ms)
			}
			require.Empty(t, w.endOf(c).errs, "it waits for the peer")
			require.EqualValues(t, 1, heard.Load(), "the handler hears nothing of it any more")
			closed := time.Now()
			require.NoError(t, c.Close())
			require.GreaterOrEqual(t, w.requireEnd(t, c, keepalive.ReasonIdle), closed)
		})
	}
}

func TestHalfClosedPeerHasNotForEver(t *testing.T) {
	t.Parallel()
	const patience = 300 * ms
	var said atomic.Pointer[time.Time]
	w := observe(t, keepalive.Config{
		Closing: keepalive.Closing{
			Mode:    keepalive.CloseHalf,
			Timeout: patience,
			Farewell: func(any, keepalive.Reason) []byte {
				now := time.Now()
				said.Store(&now)
				return []byte(bye)
			},
		},
	}, &app{})
	c := w.dial(t)
	got, err := io.ReadAll(c)
	require.NoError(t, err)
	require.Equal(t, bye, string(got))
	end := w.requireEnd(t, c, keepalive.ReasonIdle)
	require.GreaterOrEqual(t, end.Sub(*said.Load()), patience)
	require.Eventually(t, func() bool {
		_, err := c.Write([]byte("x"))
		return err != nil
	}, eternal, ms)
}

func TestHalfClosedPeerMayNotSendForEver(t *testing.T) {
	t.Parallel()
	modes(t, func(t *testing.T, opts ...gnet.Option) {
		w := observe(t, keepalive.Config{Closing: keepalive.Closing{Mode: keepalive.CloseHalf, Timeout: time.Minute}}, &app{}, opts...)
		c := w.dial(t)
		requireClosed(t, c)
		sent, err := io.Copy(c, zeros{})
		require.Error(t, err)
		require.Greater(t, sent, int64(adapter.MaxLinger))
		require.Less(t, sent, int64(64<<20), "apart from what the kernel has taken")
		w.requireEnd(t, c, keepalive.ReasonIdle)
	})
}

// zeros are bytes without end.
type zeros struct{}

func (zeros) Read(p []byte) (int, error) { return len(p), nil }

// much is more than the sockets of smallSockets take: the rest is in gnet's buffer.
const much = 4 << 20

// smallSockets has the server send little at a time.
var smallSockets = gnet.WithSocketSendBuffer(64 << 10)

// If the peer is slow to read, the bytes in gnet's buffer leave before the farewell. They leave
// without a farewell, too, unless the reason is a timeout.
func TestWhatWasWrittenStillLeaves(t *testing.T) {
	t.Parallel()
	for name, cfg := range map[string]keepalive.Config{
		"graceful": {Closing: keepalive.Closing{Farewell: sayBye}},
		"half":     {Closing: keepalive.Closing{Farewell: sayBye, Mode: keepalive.CloseHalf}},
		"age":      {Age: keepalive.Age{Max: timeout}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			cfg.Closing.Timeout = eternal
			w := observe(t, cfg, &app{onTraffic: func(c gnet.Conn) gnet.Action {
				_, _ = c.Discard(-1)
				_, _ = c.Write(make([]byte, much))
				return gnet.None
			}}, smallSockets)
			c := w.dialSmall(t)
			_, err := c.Write([]byte("all of it, please"))
			require.NoError(t, err)
			require.Eventually(t, func() bool { return w.app.opened.Load() > 0 && w.k.Len() == 0 }, eternal, ms)
			got, err := io.ReadAll(c)
			require.NoError(t, err)
			if cfg.Closing.Farewell != nil {
				require.True(t, bytes.HasSuffix(got, []byte(bye)))
				got = got[:len(got)-len(bye)]
			}
			require.Len(t, got, much)
			c.Close()
			require.Eventually(t, func() bool { return w.app.closed.Load() == 1 }, eternal, ms)
		})
	}
}

// The bytes for a peer that reads nothing are dropped.
func TestFarewellDoesNotWaitForEver(t *testing.T) {
	t.Parallel()
	const patience = 300 * ms
	for _, mode := range []keepalive.CloseMode{keepalive.CloseGraceful, keepalive.CloseHalf} {
		t.Run(mode.String(), func(t *testing.T) {
			t.Parallel()
			w := observe(t, keepalive.Config{Closing: keepalive.Closing{Farewell: sayBye, Mode: mode, Timeout: patience}}, &app{
				onOpen: func(gnet.Conn) ([]byte, gnet.Action) { return make([]byte, much), gnet.None },
			}, smallSockets)
			begin := time.Now()
			c := w.dialSmall(t)
			end := w.requireEnd(t, c, keepalive.ReasonIdle)
			require.GreaterOrEqual(t, end.Sub(begin), timeout)
			require.Less(t, end.Sub(begin), eternal/2)
		})
	}
}

// Update to CloseHalf applies to open connections, too.
func TestHalfCloseAfterUpdate(t *testing.T) {
	t.Parallel()
	var heard atomic.Int64
	w := observe(t, keepalive.Config{Activity: keepalive.ActivityManual}, &app{
		onTraffic: func(gnet.Conn) gnet.Action { heard.Add(1); return gnet.None },
	})
	c := w.dial(t)
	require.Eventually(t, func() bool { return w.k.Len() == 1 }, eternal, ms)
	cfg := w.k.Config()
	cfg.Closing.Mode, cfg.Closing.Timeout = keepalive.CloseHalf, eternal
	require.NoError(t, w.k.Update(cfg))
	requireClosed(t, c)
	_, err := c.Write([]byte("and another thing"))
	require.NoError(t, err)
	require.NoError(t, c.Close())
	w.requireEnd(t, c, keepalive.ReasonIdle)
	require.Zero(t, heard.Load())
}

// A callback runs in the event loop, so it can close its connection.
func TestCallbackMayCloseTheConnection(t *testing.T) {
	t.Parallel()
	closeIt := func(conn any) { c := conn.(gnet.Conn); _ = c.EventLoop().Close(c) }
	for name, cfg := range map[string]keepalive.Config{
		"OnIdle": {OnIdle: func(conn any, _ keepalive.Reason) keepalive.Verdict { closeIt(conn); return keepalive.Close }},
		"OnIdle extends": {OnIdle: func(conn any, _ keepalive.Reason) keepalive.Verdict {
			closeIt(conn)
			return keepalive.Extend(time.Minute)
		}},
		"OnIdle/ReadIdle": {Timeout: time.Minute, Tick: 10 * ms, ReadIdle: timeout, OnIdle: func(conn any, _ keepalive.Reason) keepalive.Verdict {
			closeIt(conn)
			return keepalive.Close
		}},
		"Probe":          {Probe: keepalive.Probing{Send: func(conn any) error { closeIt(conn); return nil }}},
		"Probe fails":    {Probe: keepalive.Probing{Send: func(conn any) error { closeIt(conn); return io.ErrClosedPipe }}},
		"OnMaxAge":       {Age: keepalive.Age{Max: timeout, OnMax: closeIt}},
		"OnMaxAge/grace": {Age: keepalive.Age{Max: timeout, Grace: timeout, OnMax: closeIt}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := observe(t, cfg, &app{})
			c := w.dial(t)
			requireClosed(t, c)
			w.requireEnd(t, c, keepalive.ReasonLocal)
		})
	}
}

// The engine stops while connections wait for their peers' last words.
func TestEngineStopsWhileConnectionsLinger(t *testing.T) {
	t.Parallel()
	modes(t, func(t *testing.T, opts ...gnet.Option) {
		w := observe(t, keepalive.Config{Closing: keepalive.Closing{Mode: keepalive.CloseHalf, Timeout: time.Minute, Farewell: sayBye}}, &app{}, opts...)
		conns := make([]net.Conn, 50)
		for i := range conns {
			conns[i] = w.dial(t)
		}
		for _, c := range conns {
			got, err := io.ReadAll(c)
			require.NoError(t, err)
			require.Equal(t, bye, string(got))
		}
		require.Zero(t, w.app.closed.Load())
		w.stop(t)
		for _, c := range conns {
			w.requireEnd(t, c, keepalive.ReasonIdle)
		}
	})
}

// The engine stops after the end of the connection, and before its time to linger is over.
func TestLingerOutlivesTheEngine(t *testing.T) {
	t.Parallel()
	w := observe(t, keepalive.Config{Closing: keepalive.Closing{Mode: keepalive.CloseHalf, Timeout: 200 * ms}}, &app{})
	c := w.dial(t)
	requireClosed(t, c)
	w.stop(t)
	w.requireEnd(t, c, keepalive.ReasonIdle)
	time.Sleep(300 * ms) // the timer fires for a stopped engine
}

func TestFarewellKnowsTheReason(t *testing.T) {
	t.Parallel()
	var said atomic.Value
	w := observe(t, keepalive.Config{
		Timeout: time.Minute,
		Tick:    10 * ms,
		Age:     keepalive.Age{Max: timeout},
		Closing: keepalive.Closing{
			Farewell: func(_ any, r keepalive.Reason) []byte {
				said.Store(r)
				return []byte("bye: " + r.String())
			},
		},
	}, &app{})
	c := w.dial(t)
	got, err := io.ReadAll(c)
	require.NoError(t, err)
	require.Equal(t, "bye: max_age", string(got))
	require.Equal(t, keepalive.ReasonMaxAge, said.Load())
	w.requireEnd(t, c, keepalive.ReasonMaxAge)
}
