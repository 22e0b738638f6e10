package api

import (
	"context"
	"errors"
	"net/http"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/heartwheel-go/heartwheel/timeout"
	"github.com/heartwheel-go/heartwheel/timeout/timeoutclient/wire"
	"github.com/heartwheel-go/heartwheel/timeout/timeoutmetrics"
)

// metrics returns the page for Prometheus.
func (h *Handler) metrics() func(http.ResponseWriter, *http.Request) error {
	registry := prometheus.NewRegistry()
	registry.MustRegister(timeoutmetrics.New(h.center), timeoutmetrics.NewTopics(remembered{h}, 2*countTimeout))
	if h.cfg.OldestTransaction != nil {
		registry.MustRegister(&oldest{h.cfg.OldestTransaction, newCache[prometheus.Metric](0)})
	}
	registry.MustRegister(collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	page := promhttp.HandlerFor(registry, promhttp.HandlerOpts{MaxRequestsInFlight: 4})
	return func(w http.ResponseWriter, r *http.Request) error {
		page.ServeHTTP(w, r)
		return nil
	}
}

var oldestDesc = prometheus.NewDesc("heartwheel_timeout_oldest_transaction_seconds",
	"For how long the oldest transaction of the database has been open. As long as it is, dead rows stay.", nil, nil)

// oldest is the metric of the oldest transaction. It is missing as long as the database does not tell.
type oldest struct {
	ask  func(context.Context) (time.Duration, error)
	last *cache[prometheus.Metric]
}

func (o *oldest) Describe(descs chan<- *prometheus.Desc) { descs <- oldestDesc }

func (o *oldest) Collect(metrics chan<- prometheus.Metric) {
	ctx, cancel := context.WithTimeout(context.Background(), countTimeout)
	defer cancel()
	metric, err := o.last.get(ctx, func() (prometheus.Metric, bool) {
		age, err := o.ask(ctx)
		if err != nil {
			return nil, false
		}
		return prometheus.MustNewConstMetric(oldestDesc, prometheus.GaugeValue, age.Seconds()), true
	})
	if err == nil && metric != nil {
		metrics <- metric
	}
}

// remembered is a timeoutmetrics.Counter with the figures of a moment ago: many scrapes cost the engine
// no more than one.
type remembered struct{ h *Handler }

func (r remembered) Topics(ctx context.Context) ([]timeout.Topic, error) {
	s, err := r.h.look(ctx)
	if err != nil {
		return nil, err
	}
	if s.Error != "" && len(s.Topics) == 0 {
		return nil, errors.New(s.Error)
	}
	return wire.Each(s.Topics, func(topic wire.TopicStats) timeout.Topic { return topic.Read() }), nil
}

func (r remembered) Count(ctx context.Context, name string) (timeout.Counts, error) {
	s, err := r.h.look(ctx)
	if err != nil {
		return timeout.Counts{}, err
	}
	for _, topic := range s.Topics {
		if c := topic.Counts; c != nil && topic.Name == name {
			return c.Read(), nil
		}
	}
	if s.Error != "" {
		return timeout.Counts{}, errors.New(s.Error)
	}
	return timeout.Counts{}, timeout.ErrNotFound
}
