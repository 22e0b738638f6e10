package api

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/heartwheel-go/heartwheel/timeout"
	"github.com/heartwheel-go/heartwheel/timeout/memory"
)

// BenchmarkSet sets one task or many in a request, on lasting connections.
func BenchmarkSet(b *testing.B) {
	engine, err := memory.New(memory.Config{})
	require.NoError(b, err)
	defer engine.Close()
	center, err := timeout.New(engine, timeout.Config{})
	require.NoError(b, err)
	defer center.Close()
	handler, err := New(center, Config{})
	require.NoError(b, err)
	server := httptest.NewServer(handler)
	defer server.Close()
	client := &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 64}}
	defer client.CloseIdleConnections()
	send := func(method, path, body string) {
		r, _ := http.NewRequest(method, server.URL+path, strings.NewReader(body))
		r.Header.Set("Content-Type", "application/json")
		res, err := client.Do(r)
		if err != nil || res.StatusCode > http.StatusCreated {
			b.Error(res, err)
			return
		}
		res.Body.Close()
	}
	for _, many := range []int{1, 500} {
		b.Run(fmt.Sprintf("tasks=%d", many), func(b *testing.B) {
			var n atomic.Int64
			b.SetParallelism(16)
			b.RunParallel(func(pb *testing.PB) {
				for pb.Next() {
					id := n.Add(1)
					if many == 1 {
						send(http.MethodPut, fmt.Sprintf("/v1/topics/t/tasks/%d", id), `{"after":"1h","payload":{"order":4711}}`)
						continue
					}
					var body strings.Builder
					body.WriteString(`{"tasks":[`)
					for i := range many {
						fmt.Fprintf(&body, `%s{"topic":"t","id":"%d-%d","after":"1h","payload":{"order":4711}}`, strings.Repeat(",", min(i, 1)), id, i)
					}
					send(http.MethodPost, "/v1/tasks/set", body.String()+"]}")
				}
			})
			b.ReportMetric(float64(many)*float64(b.N)/b.Elapsed().Seconds(), "tasks/s")
		})
	}
}
