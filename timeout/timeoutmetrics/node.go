package timeoutmetrics

import (
	"slices"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/heartwheel-go/heartwheel/internal/sink"
	"github.com/heartwheel-go/heartwheel/timeout"
	"github.com/heartwheel-go/heartwheel/timeout/engine"
)

var (
	ofNode sink.Descs

	owned     = perTopic("owned_slots", "Slots that belong to this node.")
	queued    = perTopic("queued_tasks", "Tasks that this node has leased and not begun.")
	running   = perTopic("running_handlers", "Handlers that run on this node.")
	waiting   = perTopic("waiting_pulls", "Pulls that wait at this node for a due task.")
	done      = perTopic("done_total", "Tasks that were done, and successful runs of tasks that run again.")
	failed    = perTopic("failed_attempts_total", "Attempts that ended with an error or a panic.")
	dead      = perTopic("dead_total", "Tasks that became dead, and runs of periodic tasks that were given up.")
	givenUp   = perTopic("given_up_total", "Of dead_total, the runs of periodic tasks: their tasks wait for the next run.")
	accepted  = perTopic("accepted_total", "Attempts whose outcome is told later.")
	postponed = perTopic("postponed_total", "Tasks that were handed back since their target fails, or since this node can't run them.")
	returned  = perTopic("returned_total", "Tasks that were handed back when the node stopped.")
	rescued   = perTopic("rescued_total", "Tasks of the slots of other nodes that were late by a lease.")
	pulled    = perTopic("pulled_total", "Tasks that programs have leased at this node.")
	purged    = perTopic("purged_dead_total", "Dead tasks that this node has deleted, since they were too old, too many or too large for Redis.")
	abandoned = perTopic("abandoned_total", "Handlers that had not returned long after their time was over.")
	again     = perTopic("again_total", "Tasks that were leased since an earlier lease had expired.")
	lost      = perTopic("lost_leases_total", "Leases that were lost on this node.")
	early     = perTopic("early_total", "Tasks that were handled before they were due. It is 0, or the engine is at fault.")
	lateness  = perTopic("lateness_seconds", "How long after the action time first attempts began.")
	took      = perTopic("handler_seconds", "How long handlers took.")
	unserved  = perTopic("unserved", "1 while the topic has due tasks that no node can run.")

	circuits = ofNode.Add("timeout_open_circuits", "Targets to which this node makes no calls, since they fail.")
	nodes    = ofNode.Add("timeout_nodes", "Nodes that this one knows of.")
	leader   = ofNode.Add("timeout_leader", "1 while this node is the leader.")
	taken    = ofNode.Add("timeout_name_taken", "1 while another running node has this node's name.")
)

func perTopic(name, help string) *prometheus.Desc {
	return ofNode.Add("timeout_"+name, help, "topic")
}

// New returns a collector of the figures of a center, as heartwheel_timeout_*, for each topic it serves. A registry
// returns prometheus.AlreadyRegisteredError if another center has the same labels. The center may be closed before: its
// counters stay. New panics without a center.
func New(center *timeout.Center) prometheus.Collector {
	if center == nil {
		panic("timeoutmetrics: New needs a center")
	}
	return sink.Collector(ofNode, func(to sink.Sink) {
		collectNode(to, center.Node(), center.View(), center.OpenCircuits())
		stats := center.Stats()
		for _, s := range stats {
			collectTopic(to, s)
		}
		collectUnserved(to, stats, center.Unserved())
	})
}

func collectNode(to sink.Sink, name string, view engine.View, open []string) {
	to.Gauge(circuits, float64(len(open)))
	to.Gauge(nodes, float64(len(view.Nodes)))
	to.Bool(leader, view.Leader() == name)
	to.Bool(taken, view.Other != "")
}

// collectUnserved also has topics without figures of this node.
func collectUnserved(to sink.Sink, stats []timeout.Stats, names []string) {
	for _, name := range names {
		to.Bool(unserved, true, name)
	}
	for _, s := range stats {
		if !slices.Contains(names, s.Topic) {
			to.Bool(unserved, false, s.Topic)
		}
	}
}

func collectTopic(to sink.Sink, s timeout.Stats) {
	to.Gauge(owned, float64(len(s.Slots)), s.Topic)
	to.Gauge(queued, float64(s.Queued), s.Topic)
	to.Gauge(running, float64(s.Running), s.Topic)
	to.Gauge(waiting, float64(s.Waiting), s.Topic)
	to.Counter(done, s.Done, s.Topic)
	to.Counter(failed, s.Failed, s.Topic)
	to.Counter(dead, s.Dead, s.Topic)
	to.Counter(givenUp, s.GivenUp, s.Topic)
	to.Counter(accepted, s.Accepted, s.Topic)
	to.Counter(postponed, s.Postponed, s.Topic)
	to.Counter(returned, s.Returned, s.Topic)
	to.Counter(rescued, s.Rescued, s.Topic)
	to.Counter(pulled, s.Pulled, s.Topic)
	to.Counter(purged, s.Purged, s.Topic)
	to.Counter(abandoned, s.Abandoned, s.Topic)
	to.Counter(again, s.Again, s.Topic)
	to.Counter(lost, s.Lost, s.Topic)
	to.Counter(early, s.Early, s.Topic)
	to.Histogram(lateness, s.Late, time.Millisecond, 5000*time.Second, s.Topic)
	to.Histogram(took, s.Took, 100*time.Microsecond, 500*time.Second, s.Topic)
}
