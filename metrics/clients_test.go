package metrics

import (
	"context"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/stretchr/testify/require"

	"github.com/heartwheel-go/heartwheel/connpool"
	"github.com/heartwheel-go/heartwheel/heartbeat"
	"github.com/heartwheel-go/heartwheel/keepalive/ssekeepalive"
)

func TestFiguresAreTheBeaters(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b, err := heartbeat.New(heartbeat.Config{})
		require.NoError(t, err)
		reg := prometheus.NewPedanticRegistry()
		figures := NewBeater(b)
		reg.MustRegister(figures)
		here, there := net.Pipe()
		go io.Copy(io.Discard, there)
		c, err := b.Start(here, heartbeat.Options{Interval: time.Second, Message: []byte("x"), Answer: heartbeat.AnswerNone})
		require.NoError(t, err)
		go io.Copy(io.Discard, c)
		time.Sleep(10500 * time.Millisecond)
		synctest.Wait() // for a beat of this very moment
		require.EqualValues(t, 1, value(t, reg, "heartwheel_heartbeat_connections"))
		beats := b.Stats().Beats
		require.Greater(t, beats, uint64(5))
		require.EqualValues(t, beats, value(t, reg, "heartwheel_heartbeat_beats_total"))
		require.NoError(t, there.Close())
		time.Sleep(10 * time.Second)
		require.EqualValues(t, 1, value(t, reg, "heartwheel_heartbeat_failed_total"))
		requireComplete(t, reg, beaterAll)
		require.NoError(t, b.Close())
		require.True(t, reg.Unregister(figures))
		families, err := reg.Gather()
		require.NoError(t, err)
		require.Empty(t, families)
	})
}

func TestFiguresAreThePools(t *testing.T) {
	refuse := false
	p, err := connpool.New(connpool.Config[io.Closer]{MaxOpen: 5, Dial: func(context.Context) (io.Closer, error) {
		if refuse {
			return nil, io.ErrClosedPipe
		}
		here, _ := net.Pipe()
		return here, nil
	}})
	require.NoError(t, err)
	reg := prometheus.NewPedanticRegistry()
	reg.MustRegister(NewPool(p))
	first, err := p.Get(t.Context())
	require.NoError(t, err)
	second, err := p.Get(t.Context())
	require.NoError(t, err)
	require.NoError(t, first.Put())
	require.EqualValues(t, 5, value(t, reg, "heartwheel_connpool_connections_limit"))
	require.EqualValues(t, 1, value(t, reg, "heartwheel_connpool_connections", "state=idle"))
	require.EqualValues(t, 1, value(t, reg, "heartwheel_connpool_connections", "state=in_use"))
	require.EqualValues(t, 2, value(t, reg, "heartwheel_connpool_gets_total"))
	require.EqualValues(t, 2, value(t, reg, "heartwheel_connpool_dials_total"))
	require.EqualValues(t, 2, value(t, reg, "heartwheel_connpool_waits_total"))
	require.NoError(t, second.Drop())
	require.EqualValues(t, 1, value(t, reg, "heartwheel_connpool_connections_closed_total", "reason=dropped"))
	require.Zero(t, value(t, reg, "heartwheel_connpool_connections_closed_total", "reason=idle"))
	third, err := p.Get(t.Context())
	require.NoError(t, err)
	_, err = third.Take()
	require.NoError(t, err)
	require.EqualValues(t, 1, value(t, reg, "heartwheel_connpool_connections_taken_total"))
	refuse = true
	_, err = p.Get(t.Context())
	require.Error(t, err)
	require.EqualValues(t, 1, value(t, reg, "heartwheel_connpool_dial_errors_total"))
	requireComplete(t, reg, poolAll)
	require.NoError(t, p.Close())

	require.ErrorAs(t, reg.Register(NewPool(p)), &prometheus.AlreadyRegisteredError{})
}

func TestFiguresAreTheStreams(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k, err := ssekeepalive.New(ssekeepalive.Config{Interval: time.Second})
		require.NoError(t, err)
		reg := prometheus.NewPedanticRegistry()
		reg.MustRegister(NewStreams(k))
		h := k.Wrap(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "text/event-stream")
			w.(http.Flusher).Flush()
			time.Sleep(3500 * time.Millisecond)
			require.EqualValues(t, 1, value(t, reg, "heartwheel_sse_streams"))
			_, _ = io.WriteString(w, "data: half")
			time.Sleep(1500 * time.Millisecond)
		}))
		h.ServeHTTP(httptest.NewRecorder(), httptest.NewRequest(http.MethodGet, "/", nil))
		require.Zero(t, value(t, reg, "heartwheel_sse_streams"))
		require.EqualValues(t, 3, value(t, reg, "heartwheel_sse_comments_total"))
		require.EqualValues(t, 1, value(t, reg, "heartwheel_sse_withheld_total"))
		requireComplete(t, reg, streamsAll)
		require.NoError(t, k.Close())
	})
}

// requireComplete requires a value of each metric, and names as Prometheus wants them.
func requireComplete(t *testing.T, reg prometheus.Gatherer, descs []*prometheus.Desc) {
	families, err := reg.Gather()
	require.NoError(t, err)
	require.Len(t, families, len(descs))
	problems, err := testutil.GatherAndLint(reg)
	require.NoError(t, err)
	require.Empty(t, problems)
}

func TestNewOfClientsNeedsThem(t *testing.T) {
	require.PanicsWithValue(t, "metrics: NewBeater needs a Beater", func() { NewBeater(nil) })
	require.PanicsWithValue(t, "metrics: NewPool needs a pool", func() { NewPool[int](nil) })
	for _, k := range []*ssekeepalive.Streams{nil, new(ssekeepalive.Streams)} {
		require.PanicsWithValue(t, "metrics: NewStreams needs Streams from ssekeepalive.New", func() { NewStreams(k) })
	}
}
