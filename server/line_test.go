package server

import (
	"bytes"
	"context"
	"io"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/panjf2000/gnet/v2"
	"github.com/stretchr/testify/require"

	"github.com/heartwheel-go/heartwheel/internal/logtest"
	"github.com/heartwheel-go/heartwheel/keepalive"
)

// shout handles lines with an exclamation mark in front.
func shout(_ gnet.Conn, line []byte) (answer []byte, handled bool) {
	switch text, ok := bytes.CutPrefix(line, []byte("!")); {
	case !ok:
		return []byte("nobody sees this"), false
	case string(text) == "panic":
		panic("at the user")
	case string(text) == "nothing":
		return nil, true
	default:
		return bytes.ToUpper(text), true
	}
}

// Split at every byte, as with the protocol itself.
func TestLinesThatAreHandledAreNotTheProtocols(t *testing.T) {
	h := handlerOf(t, Config{Line: shout, MaxLine: 20})
	for in, want := range map[string]string{
		"!hello\n":                           "HELLO\n",
		"!hello\r\n":                         "HELLO\r\n",
		"!\n":                                "\n",
		"!nothing\n":                         "",
		"!quit\nPING\n!x\nhello\n":           "QUIT\nPONG\nX\nhello\n",
		"!panic\r\nPING\n":                   "ERR internal error\r\nPONG\n",
		"!no end":                            "",
		"BEAT\n!nothing\nPING 1\n":           "PONG 1\n",
		"!" + strings.Repeat("x", 20) + "\n": "ERR line too long\n",
	} {
		for i := 0; i <= len(in); i++ {
			out, _ := say(h, in[:i], in[i:])
			require.Equal(t, want, out, "%q split at %d", in, i)
		}
	}
	out, action := say(h, "!a\nQUIT\n!never\n")
	require.Equal(t, "A\nBYE\n", out)
	require.Equal(t, gnet.Close, action)
}

func TestALineCostsNoAllocation(t *testing.T) {
	for name, cfg := range map[string]Config{
		"nil":     {},
		"handled": {Line: func(_ gnet.Conn, line []byte) ([]byte, bool) { return line, true }},
	} {
		t.Run(name, func(t *testing.T) {
			h := handlerOf(t, cfg)
			cfg := h.Config()
			c, s := new(fakeConn), new(session)
			in, out := []byte("PING 1\nhello\n"), make([]byte, 0, 100)
			require.Zero(t, testing.AllocsPerRun(100, func() {
				out, _, _ = h.answerAll(c, &s.Lines, &cfg, in, out[:0])
			}))
			require.NotEmpty(t, out)
		})
	}
}

// What is written after the connection was closed would go to whoever has its descriptor then.
func TestLineMayCloseTheConnection(t *testing.T) {
	h := handlerOf(t, Config{Line: func(c gnet.Conn, line []byte) ([]byte, bool) {
		fake := c.(*fakeConn)
		fake.gone = string(line) == "leave" || string(line) == "leave it to you"
		return []byte("last words"), string(line) != "leave it to you"
	}})
	for _, in := range []string{"leave\nPING\n", "leave it to you\nPING\n", "hello\nleave\n", "hello\nleave\npart"} {
		c := &fakeConn{in: []byte(in)}
		require.Equal(t, gnet.None, h.OnTraffic(c), in)
		require.Empty(t, c.out.String(), in)
		require.Nil(t, c.ctx, in)
	}
}

func TestLinesOfRealConnections(t *testing.T) {
	log := new(logtest.Log)
	policies := keepalive.Config{Timeout: timeout, Tick: 10 * ms, Logger: log.Logger(slog.LevelInfo)}
	r := start(t, Config{Config: policies, Loops: 2, Line: func(c gnet.Conn, line []byte) ([]byte, bool) {
		switch string(line) {
		case "close":
			_ = c.EventLoop().Close(c)
		case "later":
			go func() { _ = c.AsyncWrite([]byte("now\n"), nil) }()
		default:
			return shout(c, line)
		}
		return nil, true
	}})
	c := r.dial(t)
	require.Equal(t, "HELLO\n", ask(t, c, "!hello\n"))
	require.Equal(t, "now\n", ask(t, c, "later\n"))
	require.Equal(t, "ERR internal error\n", ask(t, c, "!panic\n"))
	require.Equal(t, "PONG\n", ask(t, c, "PING\n"))
	require.EqualValues(t, 1, r.Stats().Panics)
	log.Await(t, `Line panicked.*at the user.*line_test.go`)
	_, err := io.WriteString(c, "hello\nclose\nPING\n")
	require.NoError(t, err)
	_, _ = io.ReadAll(c) // perhaps ended by a reset
	require.Eventually(t, func() bool { return r.Stats().Closed[keepalive.ReasonLocal] == 1 }, eternal, ms)

	// Handled or not, whole lines are heartbeats.
	c = r.dial(t)
	for range 24 {
		require.Equal(t, "A\n", ask(t, c, "!a\n"))
		time.Sleep(beat)
	}
	require.Equal(t, byeIdle, rest(t, c))
	require.EqualValues(t, 1, r.Stats().Closed[keepalive.ReasonIdle])
	require.NoError(t, r.Shutdown(context.Background()))
}

func TestLineSeesWhoCameAfterTheKeeperWasClosed(t *testing.T) {
	r := start(t, Config{Line: shout})
	require.NoError(t, r.Keeper().Close())
	c := r.dial(t)
	require.Equal(t, "A\n", ask(t, c, "!a\n"))
	require.Equal(t, "PONG\n", ask(t, c, "PING\n"))
}

func TestLineCanBeChangedWhileTheServerRuns(t *testing.T) {
	r := start(t, Config{})
	c := r.dial(t)
	require.Equal(t, "!a\n", ask(t, c, "!a\n"))
	cfg := r.Config()
	cfg.Line = shout
	require.NoError(t, r.Update(cfg))
	require.Equal(t, "A\n", ask(t, c, "!a\n"))
}
