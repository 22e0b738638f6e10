package api

import (
	"context"
	"errors"
	"net/http"
	"slices"
	"time"

	"github.com/heartwheel-go/heartwheel/timeout"
	"github.com/heartwheel-go/heartwheel/timeout/engine"
	"github.com/heartwheel-go/heartwheel/timeout/timeoutclient/wire"
	"github.com/heartwheel-go/heartwheel/wheel/histogram"
)

// countTimeout is how long the engine may take for the figures of all topics.
const countTimeout = 5 * time.Second

func (h *Handler) getStats(w http.ResponseWriter, r *http.Request) error {
	stats, err := h.stats.get(r.Context())
	if err != nil {
		return err
	}
	all, err := h.sums.get(r.Context())
	if err != nil {
		return err
	}
	stats.Sums = all.Sums
	stats.Topics = slices.Clone(stats.Topics) // they serve other requests, too
	for i := range stats.Topics {
		stats.Topics[i].All = all.topics[stats.Topics[i].Name]
	}
	return answer(w, stats, nil)
}

func (h *Handler) getMembers(w http.ResponseWriter, _ *http.Request) error {
	return answer(w, h.members(), nil)
}

// closeCircuit closes an open circuit of this node.
func (h *Handler) closeCircuit(w http.ResponseWriter, r *http.Request) error {
	name := r.URL.Query().Get("circuit")
	if !h.center.CloseCircuit(name) {
		return problem(http.StatusNotFound, "circuit %.*q, must be one that is open on node %s", maxShown, name, h.center.Node())
	}
	h.stats.forget()
	w.WriteHeader(http.StatusNoContent)
	return nil
}

func (h *Handler) members() wire.Members {
	view := h.center.View()
	return wire.Members{Node: h.center.Node(), Leader: view.Leader(), Nodes: append([]engine.Node{}, view.Nodes...)}
}

// look asks the center and the engine. It counts the tasks of one topic at a time, so that figures take one connection of
// the engine's, and leave the others to tasks.
func (h *Handler) look(ctx context.Context) (s wire.Stats, answered bool) {
	s = wire.Stats{
		At: wire.Instant{Time: time.Now()}, Since: wire.Instant{Time: h.since}, Node: h.center.Node(), Engine: h.cfg.Engine,
		Members: h.members(), Circuits: append([]string{}, h.center.OpenCircuits()...), Unserved: append([]string{}, h.center.Unserved()...),
		Topics: []wire.TopicStats{},
	}
	here := h.here().Topics
	topics, err := h.center.Topics(ctx)
	view := h.center.View()
	for _, topic := range topics {
		stats := wire.TopicStats{Topic: maskedTopic(topic), Owners: view.Owners(topic.Name, topic.WithDefaults().Slots)}
		if served, ok := here[topic.Name]; ok {
			stats.Here = &served
		}
		counts, failed := h.center.Count(ctx, topic.Name)
		switch {
		case failed == nil:
			stats.Counts = new(wire.CountsOf(counts))
		case !errors.Is(failed, timeout.ErrNotFound): // otherwise it has been dropped since the topics were read
			err = failed
		}
		s.Topics = append(s.Topics, stats)
	}
	if err != nil {
		s.Error = h.missing(err)
		return s, false
	}
	h.silent.Store(false)
	return s, true
}

// missing says why figures are missing. It logs the error, which can name a server and a user, once until they are
// there again.
func (h *Handler) missing(err error) string {
	if !h.silent.Swap(true) {
		h.cfg.Logger.Warn("api: figures of the engine are missing", "err", err)
	}
	switch p := problemOf(err); p.Status {
	case http.StatusBadGateway:
		return "this server's log has the reason"
	case http.StatusGatewayTimeout:
		return "no figures in time"
	default:
		return p.Detail
	}
}

func hereOf(s timeout.Stats) wire.Here {
	return wire.Here{
		Slots: append([]int{}, s.Slots...), Queued: s.Queued, Running: s.Running, Waiting: s.Waiting, Done: s.Done, Failed: s.Failed, Dead: s.Dead, GivenUp: s.GivenUp,
		Accepted: s.Accepted, Postponed: s.Postponed, Returned: s.Returned, Rescued: s.Rescued, Pulled: s.Pulled, Purged: s.Purged,
		Abandoned: s.Abandoned, Again: s.Again, Lost: s.Lost, Early: s.Early, Late: histogramOf(s.Late), Took: histogramOf(s.Took),
	}
}

func histogramOf(h histogram.Durations) wire.Histogram {
	said := wire.Histogram{
		Count: h.Count, Sum: h.Sum.Seconds(), Max: h.Max.Seconds(),
		P50: h.Quantile(0.5).Seconds(), P99: h.Quantile(0.99).Seconds(), Buckets: []wire.Bucket{},
	}
	seen := uint64(0)
	for i, n := range h.Buckets {
		if seen == h.Count {
			break
		}
		seen += n
		said.Buckets = append(said.Buckets, wire.Bucket{Limit: h.Bound(i).Seconds(), Count: n})
	}
	return said
}
