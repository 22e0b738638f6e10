package gnetkeepalive

import (
	"io"
	"log/slog"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/panjf2000/gnet/v2"
	"github.com/stretchr/testify/require"

	"github.com/heartwheel-go/heartwheel/internal/logtest"
	"github.com/heartwheel-go/heartwheel/keepalive"
)

// Each function of the user panics for one connection, and another one, in the same
// event loop, has what it would have without.
func TestPanicsHarmOnlyTheirOwnConnection(t *testing.T) {
	t.Parallel()
	panicFor := func(conn any) {
		if conn.(gnet.Conn).Context() == any("bad") {
			panic("at the user")
		}
	}
	const soon = timeout / 2
	for name, test := range map[string]struct {
		cfg          keepalive.Config
		good, bad    keepalive.Reason
		says, spoils string // what the good one and the bad one read
	}{
		"OnIdle": {
			keepalive.Config{OnIdle: func(conn any, _ keepalive.Reason) keepalive.Verdict {
				_, _ = conn.(gnet.Conn).Write([]byte("idle"))
				panicFor(conn)
				return keepalive.Close
			}},
			keepalive.ReasonIdle, keepalive.ReasonIdle, "idle", "idle",
		},
		"OnIdle/ReadIdle": {
			keepalive.Config{Timeout: time.Minute, Tick: 10 * ms, ReadIdle: timeout, OnIdle: func(conn any, _ keepalive.Reason) keepalive.Verdict {
				panicFor(conn)
				return keepalive.Close
			}},
			keepalive.ReasonReadIdle, keepalive.ReasonReadIdle, "", "",
		},
		"Probe": {
			keepalive.Config{
				Timeout: timeout,
				Tick:    10 * ms,
				Probe: keepalive.Probing{
					After: soon,
					Send: func(conn any) error {
						panicFor(conn)
						_, err := conn.(gnet.Conn).Write([]byte("?"))
						return err
					},
				},
			},
			keepalive.ReasonNoAnswer, keepalive.ReasonNoAnswer, "?", "",
		},
		"Farewell": {
			keepalive.Config{
				Closing: keepalive.Closing{
					Farewell: func(conn any, _ keepalive.Reason) []byte {
						panicFor(conn)
						return []byte(bye)
					},
				},
			},
			keepalive.ReasonIdle, keepalive.ReasonIdle, bye, "",
		},
		"OnMaxAge": {
			keepalive.Config{
				Timeout: time.Minute,
				Tick:    10 * ms,
				Age: keepalive.Age{
					Max:   soon,
					Grace: soon,
					OnMax: func(conn any) {
						panicFor(conn)
						_, _ = conn.(gnet.Conn).Write([]byte("old"))
					},
				},
			},
			keepalive.ReasonMaxAge, keepalive.ReasonMaxAge, "old", "",
		},
		"OnClose": {
			keepalive.Config{OnClose: func(conn any, _ keepalive.Reason) { panicFor(conn) }},
			keepalive.ReasonIdle, keepalive.ReasonIdle, "", "",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			test.cfg.Logger = slog.New(slog.DiscardHandler)
			w := observe(t, test.cfg, &app{onTraffic: func(c gnet.Conn) gnet.Action {
				buf, _ := c.Peek(-1)
				c.SetContext(string(buf))
				return echo(c)
			}}, gnet.WithNumEventLoop(1))
			good, bad := w.dial(t), w.dial(t)
			say(t, bad, "bad")
			say(t, good, "good")
			for c, end := range map[net.Conn]struct {
				reason keepalive.Reason
				says   string
			}{good: {test.good, test.says}, bad: {test.bad, test.spoils}} {
				got, err := io.ReadAll(c)
				require.NoError(t, err)
				require.Equal(t, end.says, string(got))
				w.requireEnd(t, c, end.reason)
			}
			require.Eventually(t, func() bool { return w.k.Stats().Panics == 1 }, eternal, ms)
			next := w.dial(t)
			say(t, next, "good") // the loop goes on
		})
	}
}

func TestPanicsOfKeyAndPressure(t *testing.T) {
	t.Parallel()
	var log logtest.Log
	w := observe(t, keepalive.Config{
		Timeout: timeout,
		Tick:    10 * ms,
		Room:    keepalive.Room{MaxPerKey: 1, Key: func(net.Addr) string { panic("whose?") }, Pressure: keepalive.Pressure{Used: func() float64 { panic("how much?") }}},
		Logger:  log.Logger(slog.LevelInfo),
	}, &app{})
	first, second := w.dial(t), w.dial(t)
	say(t, first, "who can't be told from others")
	last := time.Now()
	say(t, second, "is not limited")
	requireClosed(t, second)
	require.GreaterOrEqual(t, w.requireEnd(t, second, keepalive.ReasonIdle).Sub(last), timeout, "and there is no pressure")
	w.requireEnd(t, first, keepalive.ReasonIdle)
	require.GreaterOrEqual(t, w.k.Stats().Panics, uint64(3))
	for _, word := range []string{"Key: whose?", "Pressure.Used: how much?", "panic_test.go"} {
		require.True(t, strings.Contains(log.String(), word), word)
	}
}

// recovering is what a program may have around the wrapped handler.
type recovering struct{ gnet.EventHandler }

func (r recovering) OnClose(c gnet.Conn, err error) gnet.Action {
	defer func() { _ = recover() }()
	return r.EventHandler.OnClose(c, err)
}

// The handler's own OnClose panics: the connection has ended nevertheless, and nobody waits for it.
func TestAPanicInTheHandlersOnCloseIsAnEnd(t *testing.T) {
	t.Parallel()
	ends := make(chan keepalive.Reason, 2)
	k := newKeeper(t, keepalive.Config{Timeout: time.Hour, OnClose: func(_ any, why keepalive.Reason) { ends <- why }})
	a := &app{booted: make(chan booted, 1), keeper: k, onClose: func(gnet.Conn, error) gnet.Action { panic("at the user") }}
	e := run(t, "tcp://127.0.0.1:0", a, recovering{Wrap(a, k)}, gnet.WithNumEventLoop(1))
	left, shed := e.dial(t), e.dial(t)
	say(t, left, "here")
	say(t, shed, "here")
	require.NoError(t, left.Close())
	require.Equal(t, keepalive.ReasonPeer, <-ends)
	n, err := k.Shed(t.Context(), keepalive.Shed{Count: 1})
	require.NoError(t, err)
	require.Equal(t, 1, n)
	require.Equal(t, keepalive.ReasonShed, <-ends)
	require.Zero(t, k.Stats().Leaving)
}
