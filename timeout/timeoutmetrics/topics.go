package timeoutmetrics

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/heartwheel-go/heartwheel/internal/sink"
	"github.com/heartwheel-go/heartwheel/timeout"
)

var (
	ofTopics sink.Descs

	tasks  = ofTopics.Add("timeout_tasks", "Tasks in the engine, by state.", "topic", "state")
	due    = ofTopics.Add("timeout_due_tasks", "Tasks in the engine that wait although their time has passed.", "topic")
	lag    = ofTopics.Add("timeout_lag_seconds", "For how long the task has been due that has waited for longest.", "topic")
	paused = ofTopics.Add("timeout_paused", "1 while the topic is paused.", "topic")
	slots  = ofTopics.Add("timeout_slots", "Slots of the topic.", "topic")
	up     = ofTopics.Add("timeout_engine_up", "1 while the engine answers.")
)

// Counter returns topics and the numbers of their tasks. It is a Center, or something in front of
// one to keep its answers for a while. Several goroutines call its methods at the same time.
type Counter interface {
	Topics(ctx context.Context) ([]timeout.Topic, error)
	Count(ctx context.Context, topic string) (timeout.Counts, error)
}

// NewTopics returns a collector of the figures of an engine, as heartwheel_timeout_*, for each existing topic. Each scrape
// counts the tasks of one topic after the other, for wait at most. A topic not counted in time has no figures of tasks,
// and engine_up is 0. NewTopics panics without a Counter, and if wait is not positive.
func NewTopics(counter Counter, wait time.Duration) prometheus.Collector {
	switch {
	case counter == nil:
		panic("timeoutmetrics: NewTopics needs a Counter")
	case wait <= 0:
		panic(fmt.Sprintf("timeoutmetrics: wait %v, must be positive", wait))
	}
	return sink.Collector(ofTopics, func(to sink.Sink) {
		ctx, cancel := context.WithTimeout(context.Background(), wait)
		defer cancel()
		to.Bool(up, collectTopics(ctx, to, counter))
	})
}

// collectTopics reports whether the engine has answered all.
func collectTopics(ctx context.Context, to sink.Sink, counter Counter) (answered bool) {
	all, err := counter.Topics(ctx)
	if err != nil {
		return false
	}
	answered = true
	for _, topic := range all {
		to.Bool(paused, topic.Paused, topic.Name)
		to.Gauge(slots, float64(topic.WithDefaults().Slots), topic.Name)
		counts, err := counter.Count(ctx, topic.Name)
		switch {
		case err == nil:
			collectCounts(to, counts, topic.Name)
		case !errors.Is(err, timeout.ErrNotFound): // otherwise it has been dropped just now
			answered = false
		}
	}
	return answered
}

func collectCounts(to sink.Sink, c timeout.Counts, topic string) {
	to.Gauge(tasks, float64(c.Pending), topic, "pending")
	to.Gauge(tasks, float64(c.Running), topic, "running")
	to.Gauge(tasks, float64(c.Done), topic, "done")
	to.Gauge(tasks, float64(c.Dead), topic, "dead")
	to.Gauge(tasks, float64(c.Removed), topic, "removed")
	to.Gauge(due, float64(c.Due), topic)
	to.Gauge(lag, c.Lag.Seconds(), topic)
}
