package api

import (
	"context"
	"errors"
	"net/http"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/heartwheel-go/heartwheel/internal/sink"
	"github.com/heartwheel-go/heartwheel/timeout"
	"github.com/heartwheel-go/heartwheel/timeout/timeoutclient/wire"
	"github.com/heartwheel-go/heartwheel/timeout/timeoutmetrics"
)

// metrics returns the page for Prometheus.
func (h *Handler) metrics() http.Handler {
	registry := prometheus.NewRegistry()
	registry.MustRegister(timeoutmetrics.New(h.center), timeoutmetrics.NewTopics(remembered{h}, 2*countTimeout))
	if h.cfg.OldestTransaction != nil {
		registry.MustRegister(h.oldest())
	}
	registry.MustRegister(collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	return promhttp.HandlerFor(registry, promhttp.HandlerOpts{MaxRequestsInFlight: 4})
}

// oldest returns the metric of the oldest transaction. It is missing as long as the database does not tell.
func (h *Handler) oldest() prometheus.Collector {
	var descs sink.Descs
	oldest := descs.Add("timeout_oldest_transaction_seconds", "For how long the oldest transaction of the database has been open. As long as it is, dead rows stay.")
	last := newCache(0, countTimeout, func(ctx context.Context) (age time.Duration, answered bool) {
		age, err := h.cfg.OldestTransaction(ctx)
		if err != nil {
			age = -1
		}
		return age, err == nil
	})
	return sink.Collector(descs, func(to sink.Sink) {
		if age, err := last.get(context.Background()); err == nil && age >= 0 {
			to.Gauge(oldest, age.Seconds())
		}
	})
}

// remembered is a timeoutmetrics.Counter with the figures of a moment ago: many scrapes cost the engine
// no more than one.
type remembered struct{ h *Handler }

func (r remembered) Topics(ctx context.Context) ([]timeout.Topic, error) {
	s, err := r.h.stats.get(ctx)
	if err == nil && s.Error != "" && len(s.Topics) == 0 {
		err = errors.New(s.Error)
	}
	return wire.Each(s.Topics, wire.TopicStats.Read), err
}

func (r remembered) Count(ctx context.Context, name string) (timeout.Counts, error) {
	s, err := r.h.stats.get(ctx)
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
