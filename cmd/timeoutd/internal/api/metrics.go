package api

import (
	"context"
	"net/http"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/heartwheel-go/heartwheel/wheel/histogram"
)

func desc(name, help string, labels ...string) *prometheus.Desc {
	return prometheus.NewDesc("heartwheel_timeout_"+name, help, labels, nil)
}

// The engine's figures are the same on all nodes. The rest is this node's.
var (
	tasks     = desc("tasks", "Tasks in the engine, by state.", "topic", "state")
	due       = desc("due_tasks", "Tasks in the engine that wait although their time has passed.", "topic")
	lag       = desc("lag_seconds", "For how long the task has been due that has waited for longest.", "topic")
	paused    = desc("paused", "1 while the topic is paused.", "topic")
	slots     = desc("slots", "Slots of the topic.", "topic")
	owned     = desc("owned_slots", "Slots that belong to this node.", "topic")
	queued    = desc("queued_tasks", "Tasks that this node has leased and not begun.", "topic")
	running   = desc("running_handlers", "Handlers that run on this node.", "topic")
	done      = desc("done_total", "Tasks that were done.", "topic")
	failed    = desc("failed_attempts_total", "Attempts that ended with an error or a panic.", "topic")
	dead      = desc("dead_total", "Tasks that became dead.", "topic")
	accepted  = desc("accepted_total", "Attempts whose outcome is told later.", "topic")
	postponed = desc("postponed_total", "Tasks that were put off since their target fails.", "topic")
	returned  = desc("returned_total", "Tasks that were handed back when the node stopped.", "topic")
	rescued   = desc("rescued_total", "Tasks of the slots of other nodes that were late by a lease.", "topic")
	swept     = desc("swept_dead_total", "Dead tasks that this node has deleted, since they were too old or too many.", "topic")
	abandoned = desc("abandoned_total", "Handlers that had not returned long after their time was over.", "topic")
	again     = desc("again_total", "Tasks that were leased since an earlier lease was outlived.", "topic")
	lost      = desc("lost_leases_total", "Leases that were lost on this node.", "topic")
	early     = desc("early_total", "Tasks that were handled before they were due. It is 0, or the engine is at fault.", "topic")
	lateness  = desc("lateness_seconds", "How long after the action time first attempts began.", "topic")
	took      = desc("handler_seconds", "How long handlers took.", "topic")
	circuits  = desc("open_circuits", "Targets to which this node makes no calls, since they fail.")
	nodes     = desc("nodes", "Nodes that this one knows of.")
	leader    = desc("leader", "1 while this node is the leader.")
	up        = desc("engine_up", "1 while the engine answers.")

	all = []*prometheus.Desc{
		tasks, due, lag, paused, slots, owned, queued, running, done, failed, dead, accepted, postponed, returned,
		rescued, swept, abandoned, again, lost, early, lateness, took, circuits, nodes, leader, up,
	}
)

// metrics returns the page for Prometheus.
func (h *Handler) metrics() (func(http.ResponseWriter, *http.Request) error, error) {
	registry := prometheus.NewRegistry()
	own := append([]prometheus.Collector{
		collector{h}, collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}),
	}, h.cfg.Metrics...)
	for _, c := range own {
		if err := registry.Register(c); err != nil {
			return nil, err
		}
	}
	page := promhttp.HandlerFor(registry, promhttp.HandlerOpts{MaxRequestsInFlight: 4})
	return func(w http.ResponseWriter, r *http.Request) error {
		page.ServeHTTP(w, r)
		return nil
	}, nil
}

// collector reads the figures when they are scraped.
type collector struct{ h *Handler }

// Describe is prometheus.Collector.
func (c collector) Describe(ch chan<- *prometheus.Desc) {
	for _, d := range all {
		ch <- d
	}
}

// Collect is prometheus.Collector.
func (c collector) Collect(ch chan<- prometheus.Metric) {
	to := sink(ch)
	ctx, cancel := context.WithTimeout(context.Background(), 2*countTimeout)
	defer cancel()
	s, err := c.h.look(ctx)
	if err != nil {
		to.gauge(up, 0)
		return
	}
	to.gauge(up, one(s.Error == ""))
	to.gauge(circuits, float64(len(s.Circuits)))
	to.gauge(nodes, float64(len(s.Members.Nodes)))
	to.gauge(leader, one(s.Members.Leader == s.Node))
	for _, topic := range s.Topics {
		to.gauge(paused, one(topic.Paused), topic.Name)
		to.gauge(slots, float64(len(topic.Owners)), topic.Name)
		if topic.Counts != nil {
			to.counts(*topic.Counts, topic.Name)
		}
		if topic.Here != nil {
			to.here(*topic.Here, topic.Name)
		}
	}
}

// sink takes figures.
type sink chan<- prometheus.Metric

func (to sink) counts(c Counts, topic string) {
	to.gauge(tasks, float64(c.Pending), topic, "pending")
	to.gauge(tasks, float64(c.Running), topic, "running")
	to.gauge(tasks, float64(c.Done), topic, "done")
	to.gauge(tasks, float64(c.Dead), topic, "dead")
	to.gauge(tasks, float64(c.Removed), topic, "removed")
	to.gauge(due, float64(c.Due), topic)
	to.gauge(lag, c.Lag, topic)
}

func (to sink) here(s Here, topic string) {
	to.gauge(owned, float64(len(s.Slots)), topic)
	to.gauge(queued, float64(s.Queued), topic)
	to.gauge(running, float64(s.Running), topic)
	to.counter(done, s.Done, topic)
	to.counter(failed, s.Failed, topic)
	to.counter(dead, s.Dead, topic)
	to.counter(accepted, s.Accepted, topic)
	to.counter(postponed, s.Postponed, topic)
	to.counter(returned, s.Returned, topic)
	to.counter(rescued, s.Rescued, topic)
	to.counter(swept, s.Swept, topic)
	to.counter(abandoned, s.Abandoned, topic)
	to.counter(again, s.Again, topic)
	to.counter(lost, s.Lost, topic)
	to.counter(early, s.Early, topic)
	to.histogram(lateness, s.Late.whole, time.Millisecond, 5000*time.Second, topic)
	to.histogram(took, s.Took.whole, 100*time.Microsecond, 500*time.Second, topic)
}

func (to sink) gauge(d *prometheus.Desc, v float64, labels ...string) {
	to <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, v, labels...)
}

func (to sink) counter(d *prometheus.Desc, n uint64, labels ...string) {
	to <- prometheus.MustNewConstMetric(d, prometheus.CounterValue, float64(n), labels...)
}

// histogram shows the buckets from one limit to another. The first one includes all shorter
// durations.
func (to sink) histogram(d *prometheus.Desc, h histogram.Durations, from, most time.Duration, labels ...string) {
	buckets, seen := map[float64]uint64{}, uint64(0)
	for i, n := range h.Buckets {
		seen += n
		if bound := h.Bound(i); from <= bound && bound <= most {
			buckets[bound.Seconds()] = seen
		}
	}
	to <- prometheus.MustNewConstHistogram(d, h.Count, h.Sum.Seconds(), buckets, labels...)
}

func one(b bool) float64 {
	if b {
		return 1
	}
	return 0
}
