//go:build interop

package metrics

import (
	"bytes"
	"context"
	"errors"
	"net"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus/promhttp"
	"github.com/stretchr/testify/require"

	"github.com/heartwheel-go/heartwheel/connpool"
	"github.com/heartwheel-go/heartwheel/heartbeat"
	"github.com/heartwheel-go/heartwheel/internal/dashboardtest"
	"github.com/heartwheel-go/heartwheel/keepalive"
)

func TestPromtoolTakesTheAlerts(t *testing.T) {
	dashboardtest.PromtoolTakesAlerts(t, rules, "../deploy/prometheus/heartwheel.test.yml")
}

func TestPromtoolTakesTheDashboard(t *testing.T) { dashboardtest.PromtoolTakesDashboard(t, dashboard) }

func TestPromtoolTakesAScrape(t *testing.T) {
	k := newKeeper(t, keepalive.Config{Timeout: time.Second, Advise: true})
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	ln = k.Listener(ln)
	defer ln.Close()
	c, err := net.Dial("tcp", ln.Addr().String())
	require.NoError(t, err)
	defer c.Close()
	_, err = ln.Accept()
	require.NoError(t, err)
	require.Eventually(t, func() bool { return k.Stats().Closed[keepalive.ReasonIdle] == 1 }, time.Minute, time.Millisecond)

	reg := register(k)
	beater, err := heartbeat.New(heartbeat.Config{})
	require.NoError(t, err)
	defer beater.Close()
	reg.MustRegister(NewBeater(beater))
	pool, err := connpool.New(connpool.Config[net.Conn]{Dial: func(context.Context) (net.Conn, error) { return nil, errors.ErrUnsupported }})
	require.NoError(t, err)
	defer pool.Close()
	reg.MustRegister(NewPool(pool))
	s := httptest.NewServer(promhttp.HandlerFor(reg, promhttp.HandlerOpts{}))
	defer s.Close()
	res, err := http.Get(s.URL)
	require.NoError(t, err)
	defer res.Body.Close()
	var page bytes.Buffer
	_, err = page.ReadFrom(res.Body)
	require.NoError(t, err)
	require.Contains(t, page.String(), `heartwheel_connections_closed_total{reason="idle"} 1`)
	require.Contains(t, page.String(), `heartwheel_connpool_connections{state="idle"} 0`)
	dashboardtest.Promtool(t, page.Bytes(), "check", "metrics")
}
