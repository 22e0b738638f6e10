package otel

import (
	"net"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"

	"github.com/heartwheel-go/heartwheel/examples/internal/exampletest"
	"github.com/heartwheel-go/heartwheel/keepalive"
	"github.com/heartwheel-go/heartwheel/metrics"
)

func TestMain(m *testing.M) { exampletest.Main(m) }

// A receiver of OTLP gets each figure of a Keeper: names, texts and values are those of
// Prometheus.
func TestAReceiverGetsWhatPrometheusSees(t *testing.T) {
	receiver := newReceiver(t)
	t.Setenv("OTEL_EXPORTER_OTLP_ENDPOINT", receiver.URL)
	k := closedKeeper(t)
	provider, err := export(t.Context(), k)
	require.NoError(t, err)
	require.NoError(t, provider.Shutdown(t.Context()), "it exports once more")
	require.Len(t, receiver.exports, 1)
	got := <-receiver.exports

	require.EqualValues(t, 1, value(t, got["heartwheel_connections_closed_total"], "reason", "idle"))
	require.InDelta(t, 0.05, value(t, got["heartwheel_timeout_seconds"]), 1e-9)
	require.EqualValues(t, 1, got["heartwheel_connection_age_seconds"].GetHistogram().GetDataPoints()[0].GetCount())

	reg := prometheus.NewRegistry()
	reg.MustRegister(metrics.New(k))
	families, err := reg.Gather()
	require.NoError(t, err)
	require.Len(t, got, len(families))
	for _, f := range families {
		m := got[f.GetName()]
		require.NotNil(t, m, f.GetName())
		require.Equal(t, f.GetHelp(), m.GetDescription())
		require.Empty(t, m.GetUnit(), "the page says that the name has the unit")
		for _, series := range f.GetMetric() {
			if series.GetHistogram() != nil {
				point := m.GetHistogram().GetDataPoints()[0]
				require.Equal(t, series.GetHistogram().GetSampleCount(), point.GetCount(), f.GetName())
				require.InDelta(t, series.GetHistogram().GetSampleSum(), point.GetSum(), 1e-9, f.GetName())
				require.Len(t, point.GetExplicitBounds(), len(series.GetHistogram().GetBucket()))
				continue
			}
			var attribute []string
			for _, l := range series.GetLabel() {
				attribute = append(attribute, l.GetName(), l.GetValue())
			}
			require.InDelta(t, series.GetGauge().GetValue()+series.GetCounter().GetValue(), value(t, m, attribute...), 1e-9, f.GetName())
		}
	}
}

// closedKeeper returns a Keeper that has closed a silent connection. Its figures change no more.
func closedKeeper(t *testing.T) *keepalive.Keeper {
	k, err := keepalive.New(keepalive.Config{Timeout: 50 * time.Millisecond, Advise: true})
	require.NoError(t, err)
	defer k.Close()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	ln = k.Listener(ln)
	defer ln.Close()
	peer, err := net.Dial("tcp", ln.Addr().String())
	require.NoError(t, err)
	defer peer.Close()
	conn, err := ln.Accept()
	require.NoError(t, err)
	defer conn.Close()
	require.Eventually(t, func() bool {
		s := k.Stats()
		return s.Closed[keepalive.ReasonIdle] == 1 && s.Leaving == 0 // all is counted
	}, exampletest.Late, time.Millisecond)
	return k
}
