package gnetkeepalive

import (
	"io"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/panjf2000/gnet/v2"
	"github.com/stretchr/testify/require"

	"github.com/heartwheel-go/heartwheel/keepalive"
)

func TestProbes(t *testing.T) {
	t.Parallel()
	for _, activity := range activities() {
		t.Run(activity.String(), func(t *testing.T) {
			t.Parallel()
			w := observe(t, keepalive.Config{
				Timeout:  7200 * ms,
				Tick:     10 * ms,
				Activity: activity,
				Probe: keepalive.Probing{
					After:   2400 * ms,
					Timeout: 1600 * ms,
					Count:   2,
					Send: func(conn any) error {
						_, err := conn.(gnet.Conn).Write([]byte("?"))
						return err
					},
				},
			}, commands(&app{}))
			begin := time.Now()
			alive, dead := w.dial(t), w.dial(t)
			var answerer sync.WaitGroup
			var answers atomic.Int64
			answerer.Go(func() { // says nothing on its own
				buf := make([]byte, 1)
				for answers.Load() < 5 {
					if _, err := alive.Read(buf); err != nil || string(buf) != "?" {
						t.Errorf("%q: %v", buf, err)
						return
					}
					if got := ask(t, alive, "pong"); got != "pong" {
						t.Error(got)
					}
					answers.Add(1)
				}
			})
			got, err := io.ReadAll(dead)
			require.NoError(t, err)
			require.Regexp(t, `^\?{2,}$`, string(got))
			if more := len(got) - 2; more > 0 { // the machine was too busy to read in time
				require.LessOrEqual(t, uint64(more), 2*w.k.Stats().Spared)
			}
			require.GreaterOrEqual(t, time.Since(begin), (2400+2*1600)*ms)
			w.requireEnd(t, dead, keepalive.ReasonNoAnswer)
			answerer.Wait()
			trips := w.k.Stats().RoundTrips
			require.EqualValues(t, 5, trips.Count)
			require.Positive(t, trips.Mean())
			require.Less(t, trips.Max, 7200*ms)

			keepSaying(t, alive, 7200*ms)
			sent := w.k.Stats().Probes
			require.EqualValues(t, 5+len(got), sent, "who talks is not probed")
			alive.Close()
			w.requireEnd(t, alive, keepalive.ReasonPeer)
		})
	}
}

func TestFailedProbeIsTheEnd(t *testing.T) {
	t.Parallel()
	w := observe(t, keepalive.Config{
		Timeout: time.Minute,
		Tick:    10 * ms,
		Probe:   keepalive.Probing{After: timeout, Send: func(any) error { return io.ErrClosedPipe }},
	}, &app{})
	c := w.dial(t)
	requireClosed(t, c)
	w.requireEnd(t, c, keepalive.ReasonNoAnswer)
	require.Zero(t, w.k.Stats().Probes)
}

func TestVerdicts(t *testing.T) {
	t.Parallel()
	var mu sync.Mutex
	asked := map[string]int{}
	w := observe(t, keepalive.Config{
		Probe:   keepalive.Probing{Send: func(conn any) error { _, err := conn.(gnet.Conn).Write([]byte("?")); return err }, After: timeout, Timeout: timeout / 2},
		Timeout: 2 * timeout,
		Tick:    10 * ms,
		OnIdle: func(conn any, _ keepalive.Reason) keepalive.Verdict {
			who, _ := conn.(gnet.Conn).Context().(string)
			mu.Lock()
			defer mu.Unlock()
			asked[who]++
			switch {
			case who == "ignored":
				return keepalive.Ignore
			case who == "probed" && asked[who] == 1:
				return keepalive.Probe
			default:
				return keepalive.Close
			}
		},
	}, &app{onTraffic: func(c gnet.Conn) gnet.Action {
		buf, _ := c.Peek(-1)
		c.SetContext(string(buf))
		return echo(c)
	}})
	ignored, probed, closed := w.dial(t), w.dial(t), w.dial(t)
	say(t, ignored, "ignored")
	say(t, probed, "probed")
	say(t, closed, "closed")
	got, err := io.ReadAll(closed)
	require.NoError(t, err)
	require.Equal(t, "?", string(got))
	got, err = io.ReadAll(probed)
	require.NoError(t, err)
	require.Equal(t, "??", string(got))
	require.Less(t, w.requireEnd(t, closed, keepalive.ReasonNoAnswer), w.requireEnd(t, probed, keepalive.ReasonNoAnswer))
	time.Sleep(2 * timeout)
	buf := make([]byte, 1)
	_, err = io.ReadFull(ignored, buf)
	require.NoError(t, err)
	require.Equal(t, "?", string(buf))
	count := func() int { mu.Lock(); defer mu.Unlock(); return asked["ignored"] }
	require.Equal(t, 1, count(), "not again in the same silence")
	say(t, ignored, "ignored")
	require.Eventually(t, func() bool { return count() == 2 }, eternal, ms)
	say2(t, ignored, "?", "ignored")
}

// Pong is a touch, even if no byte is life.
func TestPongIsLife(t *testing.T) {
	t.Parallel()
	w := observe(t, keepalive.Config{
		Timeout:  timeout,
		Tick:     10 * ms,
		Activity: keepalive.ActivityManual,
		Probe:    keepalive.Probing{After: timeout / 2, Send: func(conn any) error { _, err := conn.(gnet.Conn).Write([]byte("?")); return err }},
	}, commands(&app{}))
	c := w.dial(t)
	var last time.Time
	for range 4 {
		_, err := io.ReadFull(c, make([]byte, 1))
		require.NoError(t, err)
		last = time.Now()
		require.Equal(t, "pong", ask(t, c, "pong"))
	}
	got, err := io.ReadAll(c)
	require.NoError(t, err)
	require.Equal(t, "?", string(got))
	require.GreaterOrEqual(t, w.requireEnd(t, c, keepalive.ReasonNoAnswer).Sub(last), timeout)
}
