package keepalive

import (
	"fmt"
	"log/slog"
	"net"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/heartwheel-go/heartwheel/internal/logtest"
	"github.com/heartwheel-go/heartwheel/internal/socket"
)

// In these tests a listener of somebody else stands between the socket and the Keeper.

// layered is a listener whose connections are wrapped.
type layered struct {
	net.Listener
	layer func(net.Conn) net.Conn
}

func (l layered) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	return l.layer(c), nil
}

// headed is a connection like those of go-proxyproto: its address is a header of so many bytes, and
// whoever asks for it first has to wait.
type headed struct {
	net.Conn
	header int
}

func (c *headed) Raw() net.Conn { return c.Conn }

func (c *headed) RemoteAddr() net.Addr {
	c.readHeader()
	return c.Conn.RemoteAddr()
}

func (c *headed) Read(p []byte) (int, error) {
	c.readHeader()
	return c.Conn.Read(p)
}

func (c *headed) readHeader() {
	for ; c.header > 0; c.header-- {
		if _, err := c.Conn.Read(make([]byte, 1)); err != nil {
			return
		}
	}
}

// hiding is a connection like those of netutil.LimitListener: nobody sees what is inside.
type hiding struct{ net.Conn }

func unhide(c net.Conn) net.Conn {
	if h, ok := c.(hiding); ok {
		return h.Conn
	}
	return nil
}

// The program is busy for several timeouts, and the peer goes on to speak.
func TestTheSocketIsSeenThroughALayer(t *testing.T) {
	t.Parallel()
	eachActivity(t, []Activity{ActivityRead, ActivityReadWrite, ActivityManual}, func(t *testing.T, activity Activity) {
		eachNetwork(t, func(t *testing.T, network string) bool {
			return testSlowHandler(t, network, activity, func(c net.Conn) net.Conn { return &headed{Conn: &headed{Conn: c}} })
		})
	})
}

func TestUnwrapLeadsToTheSocket(t *testing.T) {
	var log logtest.Log
	panics := false
	k := newKeeper(t, Config{Timeout: time.Hour, Logger: log.Logger(slog.LevelError), Unwrap: func(c net.Conn) net.Conn {
		if panics {
			panic("it knows nothing")
		}
		return unhide(c)
	}})
	_, inner := connect(t, "tcp")
	g := Of(k.Conn(&headed{Conn: hiding{&headed{Conn: hiding{inner}}}}))
	ask := func() error { return g.adapter.Control(nil, func(uintptr) {}) }
	require.NoError(t, ask())
	panics = true
	require.ErrorIs(t, ask(), socket.ErrNone)
	require.Contains(t, log.String(), "Unwrap: it knows nothing")
}

// A client behind a proxy connects and says nothing: the header is the proxy's word. While the program does not
// read, there may be a word behind the header.
func TestAHeaderIsNoFirstMessage(t *testing.T) {
	t.Parallel()
	eachActivity(t, activitiesHere(), func(t *testing.T, activity Activity) {
		const first = 300 * ms
		open := func() (*Keeper, net.Conn) {
			k := newKeeper(t, Config{Timeout: time.Hour, FirstMessage: first, Tick: 10 * ms, Activity: activity})
			client, server := connect(t, "tcp")
			_, err := client.Write(make([]byte, 10))
			require.NoError(t, err)
			conn := k.Conn(&headed{Conn: server, header: 10})
			require.NotNil(t, conn.RemoteAddr())
			return k, conn
		}
		begin := time.Now()
		_, conn := open()
		_, err := conn.Read(make([]byte, 1))
		require.ErrorIs(t, err, ReasonFirstMessage)
		require.GreaterOrEqual(t, time.Since(begin), first)

		k, _ := open()
		require.Eventually(t, func() bool { return k.Stats().Spared > 0 }, eternal, ms)
		require.Equal(t, 1, k.Len())
	})
}

// Nobody can tell whether bytes wait in a connection without a socket. If the program reads, there are none. If
// not, it may be slow, but not for ever.
func TestWithoutASocketABusyProgramHasFourTimeouts(t *testing.T) {
	for name, want := range map[string]struct {
		cfg    Config
		reads  bool
		writes bool
		wrap   func(net.Conn) net.Conn
		lives  time.Duration
	}{
		"busy":              {lives: 40 * time.Second},
		"reads":             {reads: true, lives: 10 * time.Second},
		"asks for the name": {writes: true, lives: 10 * time.Second, wrap: func(c net.Conn) net.Conn { return hiding{&headed{Conn: c, header: 1}} }},
		"first message":     {cfg: Config{FirstMessage: 3 * time.Second}, lives: 12 * time.Second},
		"unwrapped":         {cfg: Config{Unwrap: unhide}, lives: 10 * time.Second},
		"a pipe":            {wrap: func(c net.Conn) net.Conn { return c }, lives: 10 * time.Second},
	} {
		for _, activity := range []Activity{ActivityRead, ActivityReadWrite, ActivityManual} {
			t.Run(fmt.Sprintf("%s/activity=%v", name, activity), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					cfg := want.cfg
					cfg.Timeout, cfg.Tick, cfg.Activity = 10*time.Second, 10*ms, activity
					k := newKeeper(t, cfg)
					a, b := net.Pipe()
					defer b.Close()
					var inner net.Conn = hiding{a}
					if want.wrap != nil {
						inner = want.wrap(a)
					}
					conn := k.Conn(inner)
					if want.reads {
						go func() { _, _ = conn.Read(make([]byte, 1)) }()
					}
					if want.writes {
						go conn.RemoteAddr()
					}
					time.Sleep(want.lives - ms)
					require.Equal(t, 1, k.Len())
					time.Sleep(31 * ms)
					require.Zero(t, k.Len())
					require.Zero(t, k.Stats().Slow, "it is not known")
				})
			})
		}
	}
}

// The program reads again, and hears its peer.
func TestWithoutASocketABusyProgramComesBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := newKeeper(t, Config{Timeout: 10 * time.Second, Tick: 10 * ms})
		a, b := net.Pipe()
		defer b.Close()
		conn := k.Conn(hiding{a})
		go func() { _, _ = b.Write([]byte("x")) }()
		time.Sleep(35 * time.Second)
		_, err := conn.Read(make([]byte, 1))
		require.NoError(t, err)
		_, err = conn.Read(make([]byte, 1)) // and listens
		requireIdleTimeout(t, err)
		require.Equal(t, 45*time.Second, time.Duration(k.now()).Truncate(time.Second))
	})
}

func TestAListenerWithoutSocketsIsLoggedOnce(t *testing.T) {
	for name, layer := range map[string]struct {
		with  func(net.Conn) net.Conn
		lines int
	}{
		"hiding":    {func(c net.Conn) net.Conn { return hiding{c} }, 2},
		"a header":  {func(c net.Conn) net.Conn { return &headed{Conn: c} }, 0},
		"a socket":  {func(c net.Conn) net.Conn { return c }, 0},
		"unwrapped": {func(c net.Conn) net.Conn { return &headed{Conn: hiding{c}} }, 0},
	} {
		for _, activity := range []Activity{ActivityRead, ActivityReadWrite, ActivityManual} {
			var log logtest.Log
			cfg := Config{Activity: activity, Logger: log.Logger(slog.LevelWarn)}
			if name == "unwrapped" {
				cfg.Unwrap = unhide
			}
			k := newKeeper(t, cfg)
			for range 2 {
				ln := k.Listener(layered{listen(t, "tcp"), layer.with})
				for range 3 {
					peer, err := net.Dial("tcp", ln.Addr().String())
					require.NoError(t, err)
					defer peer.Close()
					c, err := ln.Accept()
					require.NoError(t, err)
					defer c.Close()
				}
			}
			require.Equal(t, layer.lines, strings.Count(log.String(), "show no socket"), "%s: %s", name, log.String())
			require.Equal(t, layer.lines, strings.Count(log.String(), "conn=keepalive.hiding"), name)
		}
	}
}
