package api

import (
	"context"
	"errors"
	"net/http"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/heartwheel-go/heartwheel/timeout"
	"github.com/heartwheel-go/heartwheel/timeout/timeoutclient/wire"
	"github.com/heartwheel-go/heartwheel/timeout/timeoutmetrics"
)

// metrics returns the page for Prometheus.
func (h *Handler) metrics() (func(http.ResponseWriter, *http.Request) error, error) {
	registry := prometheus.NewRegistry()
	if _, err := timeoutmetrics.Register(registry, h.centre); err != nil {
		return nil, err
	}
	if _, err := timeoutmetrics.RegisterTopics(registry, remembered{h}, 2*countTimeout); err != nil {
		return nil, err
	}
	registry.MustRegister(collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	page := promhttp.HandlerFor(registry, promhttp.HandlerOpts{MaxRequestsInFlight: 4})
	return func(w http.ResponseWriter, r *http.Request) error {
		page.ServeHTTP(w, r)
		return nil
	}, nil
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
