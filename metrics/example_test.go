package metrics_test

import (
	"fmt"
	"log"
	"net/http"
	"net/http/httptest"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/heartwheel-go/heartwheel/keepalive"
	"github.com/heartwheel-go/heartwheel/metrics"
)

func ExampleNew() {
	k, err := keepalive.New(keepalive.Config{Timeout: 30 * time.Second})
	if err != nil {
		log.Fatal(err)
	}
	defer k.Close()

	reg := prometheus.NewRegistry()
	reg.MustRegister(metrics.New(k))
	handler := promhttp.HandlerFor(reg, promhttp.HandlerOpts{})

	page := httptest.NewRecorder()
	handler.ServeHTTP(page, httptest.NewRequest(http.MethodGet, "/metrics", nil))
	for line := range strings.Lines(page.Body.String()) {
		if strings.HasPrefix(line, "heartwheel_timeout_seconds") {
			fmt.Print(line)
		}
	}
	// Output: heartwheel_timeout_seconds 30
}
