package api

import (
	"cmp"
	"context"
	"fmt"
	"net/http"
	"slices"
	"time"

	"github.com/heartwheel-go/heartwheel/timeout"
	"github.com/heartwheel-go/heartwheel/timeout/timeoutclient/wire"
	"github.com/heartwheel-go/heartwheel/wheel/histogram"
)

// sumsTimeout is how long other nodes may take for their figures.
const sumsTimeout = time.Second

// sums are the figures of all nodes, by topic.
type sums struct {
	wire.Sums
	topics map[string]*wire.Here
}

// getHere tells the figures of this node. It asks nobody, since other nodes ask it for their sums.
func (h *Handler) getHere(w http.ResponseWriter, _ *http.Request) error {
	return answer(w, h.here(), nil)
}

func (h *Handler) here() wire.NodeStats {
	s := wire.NodeStats{Summed: wire.Summed{Node: h.center.Node(), Since: wire.Instant{Time: h.since}}, Topics: make(map[string]wire.Here)}
	for _, stats := range h.center.Stats() {
		s.Topics[stats.Topic] = hereOf(stats)
	}
	return s
}

// sum asks the other nodes.
func (h *Handler) sum(ctx context.Context) (s sums, answered bool) {
	var answers []wire.NodeStats
	var errs []error
	if h.cfg.Peers != nil {
		answers, errs = h.cfg.Peers(ctx)
	}
	s = addUp(append([]wire.NodeStats{h.here()}, answers...), h.members(), errs)
	s.Asked = h.cfg.Peers != nil
	return s, true
}

// addUp adds up the figures of the members. The first answer is this node's own. Of several answers of a
// node the first counts.
func addUp(answers []wire.NodeStats, members wire.Members, errs []error) sums {
	s := sums{Sums: wire.Sums{At: wire.Instant{Time: time.Now()}, Missing: []string{}, Errors: []string{}}}
	all := make(map[string]timeout.Stats)
	waits := map[string]bool{members.Node: true} // whether a member has not answered
	for _, member := range members.Nodes {
		waits[member.Name] = true
	}
	for _, answer := range answers {
		wait, member := waits[answer.Node]
		if !member {
			errs = append(errs, fmt.Errorf("node %.*q has answered, and is no member, or not yet", maxShown, answer.Node))
		}
		if !wait {
			continue
		}
		waits[answer.Node] = false
		s.Nodes = append(s.Nodes, answer.Summed)
		for name, here := range answer.Topics {
			sum := all[name]
			sum.Add(statsOf(here))
			all[name] = sum
		}
	}
	for name, wait := range waits {
		if wait {
			s.Missing = append(s.Missing, name)
		}
	}
	for _, err := range errs {
		s.Errors = append(s.Errors, err.Error())
	}
	slices.Sort(s.Missing)
	slices.Sort(s.Errors)
	slices.SortFunc(s.Nodes, func(a, b wire.Summed) int { return cmp.Compare(a.Node, b.Node) })
	s.topics = make(map[string]*wire.Here, len(all))
	for name, sum := range all {
		here := hereOf(sum)
		slices.Sort(here.Slots)
		here.Slots = slices.Compact(here.Slots) // one on its way to another node may be in both answers
		s.topics[name] = &here
	}
	return s
}

// statsOf is the reverse of hereOf.
func statsOf(h wire.Here) timeout.Stats {
	return timeout.Stats{
		Slots: h.Slots, Queued: h.Queued, Running: h.Running, Waiting: h.Waiting, Done: h.Done, Failed: h.Failed, Dead: h.Dead, GivenUp: h.GivenUp,
		Accepted: h.Accepted, Postponed: h.Postponed, Returned: h.Returned, Rescued: h.Rescued, Pulled: h.Pulled, Purged: h.Purged,
		Abandoned: h.Abandoned, Again: h.Again, Lost: h.Lost, Early: h.Early, Late: durationsOf(h.Late), Took: durationsOf(h.Took),
	}
}

// durationsOf is the reverse of histogramOf. All nodes have the same buckets.
func durationsOf(h wire.Histogram) histogram.Durations {
	d := histogram.Durations{
		Count: h.Count, Sum: time.Duration(h.Sum * float64(time.Second)), Max: time.Duration(h.Max * float64(time.Second)),
	}
	for i, bucket := range h.Buckets[:min(len(h.Buckets), len(d.Buckets))] {
		d.Buckets[i] = bucket.Count
	}
	return d
}
