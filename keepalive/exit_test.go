package keepalive

import (
	"io"
	"log/slog"
	"runtime"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// A function of the user may end its goroutine, as t.FailNow does. The goroutine is a worker of
// ours. The connection is closed all the same, and nothing is left of it.
func TestGoexitInAFunctionOfTheUserKeepsNoConnection(t *testing.T) {
	t.Parallel()
	exit := func(any) { runtime.Goexit() }
	for name, test := range map[string]struct {
		cfg    Config
		reason Reason
	}{
		"OnIdle": {Config{OnIdle: func(any, Reason) Verdict { runtime.Goexit(); return Ignore }}, ReasonIdle},
		"OnIdle about ReadIdle": {
			Config{ReadIdle: short / 2, OnIdle: func(any, Reason) Verdict { runtime.Goexit(); return Ignore }}, ReasonReadIdle,
		},
		"Probe.Send": {
			Config{Probe: Probing{Send: func(any) error { runtime.Goexit(); return nil }}}, ReasonNoAnswer,
		},
		"Age.OnMax":        {Config{Age: Age{Max: short / 2, OnMax: exit}}, ReasonMaxAge},
		"Closing.Farewell": {Config{Closing: Closing{Farewell: func(any, Reason) []byte { runtime.Goexit(); return nil }}}, ReasonIdle},
		"OnClose":          {Config{OnClose: func(any, Reason) { runtime.Goexit() }}, ReasonIdle},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			test.cfg.Timeout, test.cfg.Tick = short, 10*ms
			k := newKeeper(t, test.cfg)
			peer, inner := connect(t, "tcp")
			k.Conn(inner)
			require.Eventually(t, func() bool {
				s := k.Stats()
				return s.Conns == 0 && s.Leaving == 0 && s.Closed[test.reason] == 1
			}, eternal, ms)
			_, err := peer.Read(make([]byte, 1))
			require.ErrorIs(t, err, io.EOF)
		})
	}
}

// Nobody is to blame for a panic in Probe.Send but the program: the peer has its time to answer.
func TestPanicInProbeSendShortensNoTimeout(t *testing.T) {
	t.Parallel()
	k := newKeeper(t, Config{
		Timeout: 2 * short,
		Tick:    10 * ms,
		Logger:  slog.New(slog.DiscardHandler),
		Probe:   Probing{After: short, Send: func(any) error { panic("probe") }},
	})
	_, inner := connect(t, "tcp")
	begin := time.Now()
	conn := k.Conn(inner)
	_, err := conn.Read(make([]byte, 1))
	require.ErrorIs(t, err, ReasonNoAnswer)
	require.GreaterOrEqual(t, time.Since(begin), 2*short)
	require.EqualValues(t, 1, k.Stats().Panics)
}
