package metrics

import (
	"net"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/stretchr/testify/require"

	"github.com/heartwheel-go/heartwheel/keepalive"
)

func newKeeper(t *testing.T, cfg keepalive.Config) *keepalive.Keeper {
	k, err := keepalive.New(cfg)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, k.Close()) })
	return k
}

func register(k *keepalive.Keeper) *prometheus.Registry {
	reg := prometheus.NewPedanticRegistry()
	reg.MustRegister(New(k))
	return reg
}

// value returns the value of a metric, and of a histogram its count.
func value(t *testing.T, reg prometheus.Gatherer, name string, labels ...string) float64 {
	families, err := reg.Gather()
	require.NoError(t, err)
	for _, f := range families {
		if f.GetName() != name {
			continue
		}
		for _, m := range f.GetMetric() {
			var have []string
			for _, l := range m.GetLabel() {
				have = append(have, l.GetName()+"="+l.GetValue())
			}
			if strings.Join(have, ",") == strings.Join(labels, ",") {
				return m.GetCounter().GetValue() + m.GetGauge().GetValue() + float64(m.GetHistogram().GetSampleCount())
			}
		}
	}
	require.Fail(t, "no such metric", "%s %v", name, labels)
	return 0
}

func TestEveryLabelIsThereFromTheStart(t *testing.T) {
	k := newKeeper(t, keepalive.Config{Advise: true})
	reg := register(k)
	for _, r := range keepalive.Reasons() {
		require.Zero(t, value(t, reg, "heartwheel_connections_closed_total", "reason="+r.String()))
		require.Zero(t, value(t, reg, "heartwheel_connections_would_close_total", "reason="+r.String()))
	}
	for _, reason := range []string{"full", "per_key", "per_user", "drain"} {
		require.Zero(t, value(t, reg, "heartwheel_connections_refused_total", "reason="+reason))
	}
	for _, s := range k.Stats().Silences {
		require.Zero(t, s.Count)
	}
	require.Zero(t, value(t, reg, "heartwheel_idle_gaps_total", "at_least=0.125"))
	require.Zero(t, value(t, reg, "heartwheel_idle_gaps_total", "at_least=2"))
	require.Zero(t, value(t, reg, "heartwheel_expiry_lateness_seconds"))

	families, err := reg.Gather()
	require.NoError(t, err)
	require.Len(t, families, len(all), "each has a value")
}

func TestNamesAreAsPrometheusWantsThem(t *testing.T) {
	problems, err := testutil.GatherAndLint(register(newKeeper(t, keepalive.Config{Advise: true})))
	require.NoError(t, err)
	require.Empty(t, problems)
}

func TestFiguresAreTheKeepers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := newKeeper(t, keepalive.Config{
			Timeout: 10 * time.Second,
			Room:    keepalive.Room{MaxConns: 3, Pressure: keepalive.Pressure{Used: func() float64 { return 0.9 }, Timeout: 5 * time.Second}},
		})
		reg := register(k)
		var peers []net.Conn
		conn := func() net.Conn {
			a, b := net.Pipe()
			peers = append(peers, b)
			return k.Conn(a)
		}
		first, _, _ := conn(), conn(), conn()
		conn() // one too many
		require.NoError(t, first.Close())
		time.Sleep(20 * time.Second)

		require.EqualValues(t, 3, value(t, reg, "heartwheel_connections_opened_total"))
		require.EqualValues(t, 0, value(t, reg, "heartwheel_connections"))
		require.EqualValues(t, 3, value(t, reg, "heartwheel_connections_limit"))
		require.EqualValues(t, 1, value(t, reg, "heartwheel_connections_refused_total", "reason=full"))
		require.EqualValues(t, 1, value(t, reg, "heartwheel_connections_closed_total", "reason=local"))
		require.EqualValues(t, 2, value(t, reg, "heartwheel_connections_closed_total", "reason=idle"))
		require.EqualValues(t, 3, value(t, reg, "heartwheel_connection_age_seconds"))
		require.EqualValues(t, 2, value(t, reg, "heartwheel_expiry_lateness_seconds"))
		require.Positive(t, value(t, reg, "heartwheel_tick_duration_seconds"))
		require.InDelta(t, 0.01, value(t, reg, "heartwheel_tick_seconds"), 1e-9)
		require.InDelta(t, 10, value(t, reg, "heartwheel_timeout_seconds"), 1e-9)
		require.InDelta(t, 0.75, value(t, reg, "heartwheel_timeout_scale_ratio"), 1e-9, "half of the pressure leaves a half of what it may take")
		require.Zero(t, value(t, reg, "heartwheel_draining"))
		require.NoError(t, k.Drain(t.Context(), 0))
		require.EqualValues(t, 1, value(t, reg, "heartwheel_draining"))
		conn()
		require.EqualValues(t, 1, value(t, reg, "heartwheel_connections_refused_total", "reason=drain"))
		for _, peer := range peers {
			require.NoError(t, peer.Close())
		}
	})
}

// A program is slow if it leaves the bytes of a peer unread. The peer lives.
func TestASlowProgramIsSeen(t *testing.T) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer ln.Close()
	k := newKeeper(t, keepalive.Config{Timeout: 50 * time.Millisecond})
	reg := register(k)
	require.Zero(t, value(t, reg, "heartwheel_slow_total"))
	peer, err := net.Dial("tcp", ln.Addr().String())
	require.NoError(t, err)
	defer peer.Close()
	_, err = peer.Write([]byte("x"))
	require.NoError(t, err)
	c, err := ln.Accept()
	require.NoError(t, err)
	defer k.Conn(c).Close()
	require.Eventually(t, func() bool { return value(t, reg, "heartwheel_slow_total") > 0 }, time.Minute, time.Millisecond)
	slow := value(t, reg, "heartwheel_slow_total")
	require.GreaterOrEqual(t, value(t, reg, "heartwheel_spared_total"), slow)
}

// The first visible bucket has everything below it, too, and nothing is lost.
func TestHistogramsAreCumulative(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := newKeeper(t, keepalive.Config{Timeout: time.Hour})
		reg := register(k)
		ages := []time.Duration{0, time.Millisecond, time.Second, 1500 * time.Millisecond, time.Minute}
		for _, age := range ages {
			a, b := net.Pipe()
			c := k.Conn(a)
			time.Sleep(age)
			require.NoError(t, c.Close())
			require.NoError(t, b.Close())
		}
		families, err := reg.Gather()
		require.NoError(t, err)
		for _, f := range families {
			if f.GetName() != "heartwheel_connection_age_seconds" {
				continue
			}
			h := f.GetMetric()[0].GetHistogram()
			require.InDelta(t, 62.501, h.GetSampleSum(), 1e-9)
			at := map[float64]uint64{}
			for _, b := range h.GetBucket() {
				at[b.GetUpperBound()] = b.GetCumulativeCount()
			}
			require.Len(t, at, 21, "1, 2, 5 and so on up to 5 million seconds")
			require.EqualValues(t, 3, at[1])
			require.EqualValues(t, 4, at[2])
			require.EqualValues(t, 4, at[50])
			require.EqualValues(t, 5, at[100])
			require.EqualValues(t, 5, at[5e6])
			return
		}
		require.Fail(t, "no ages")
	})
}

func TestSeveralKeepersHaveLabels(t *testing.T) {
	reg := prometheus.NewPedanticRegistry()
	one, two := newKeeper(t, keepalive.Config{}), newKeeper(t, keepalive.Config{Room: keepalive.Room{MaxConns: 7}})
	labelled := func(name string) prometheus.Registerer {
		return prometheus.WrapRegistererWith(prometheus.Labels{"listener": name}, reg)
	}
	labelled("one").MustRegister(New(one))
	second := New(two)
	labelled("two").MustRegister(second)
	require.EqualValues(t, 7, value(t, reg, "heartwheel_connections_limit", "listener=two"))

	var already prometheus.AlreadyRegisteredError
	require.ErrorAs(t, labelled("two").Register(New(one)), &already)
	require.True(t, labelled("two").Unregister(second))
	labelled("two").MustRegister(New(one))
	require.Zero(t, value(t, reg, "heartwheel_connections_limit", "listener=two"))
}

func TestNewNeedsAKeeper(t *testing.T) {
	for _, k := range []*keepalive.Keeper{nil, new(keepalive.Keeper)} {
		require.PanicsWithValue(t, "metrics: New needs a Keeper from keepalive.New", func() { New(k) })
	}
}

// Scrapes beside connections coming and going.
func TestScrapesMayCoincide(t *testing.T) {
	k := newKeeper(t, keepalive.Config{Timeout: 10 * time.Millisecond, Tick: time.Millisecond})
	reg := register(k)
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			for range 50 {
				a, b := net.Pipe()
				c := k.Conn(a)
				_, err := reg.Gather()
				require.NoError(t, err)
				c.Close()
				b.Close()
			}
		})
	}
	wg.Wait()
	require.EqualValues(t, 200, value(t, reg, "heartwheel_connections_opened_total"))
}
