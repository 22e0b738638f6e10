package timeout

import (
	"cmp"
	"maps"
	"slices"
	"time"

	"github.com/heartwheel-go/heartwheel/timeout/engine"
	"github.com/heartwheel-go/heartwheel/wheel/histogram"
)

// Stats counts the work of a node for a topic since it began to serve the topic. Add adds up several
// nodes.
type Stats struct {
	Topic string `json:"topic"`
	Slots []int  `json:"slots"` // slots of this node

	Queued  int `json:"queued"`  // leased and not begun
	Running int `json:"running"` // running handlers
	Waiting int `json:"waiting"` // calls of Pull that wait for a due task

	Done      uint64 `json:"done"`      // attempts with success: tasks with the outcome Done, each Again, and each run of a periodic task
	Failed    uint64 `json:"failed"`    // attempts with an error or a panic
	Dead      uint64 `json:"dead"`      // tasks with the outcome Dead, and periodic tasks whose run was given up
	GivenUp   uint64 `json:"given_up"`  // of Dead, the periodic tasks: they wait for their next run, and none can be replayed
	Accepted  uint64 `json:"accepted"`  // attempts with feedback to come
	Postponed uint64 `json:"postponed"` // tasks handed back since their target fails or asks for patience (Uncounted), or this node can't run them: no attempt
	Returned  uint64 `json:"returned"`  // tasks handed back when the center stopped, or all handlers hung: no attempt
	Rescued   uint64 `json:"rescued"`   // tasks of other nodes' slots, late by a lease

	// Pulled counts the tasks leased by Pull on this node. Done, Failed and Took don't count them,
	// since any node may be told their outcomes. Dead counts those that Feedback has told to this node.
	Pulled uint64 `json:"pulled"`

	// Purged counts the dead tasks deleted by this node as the leader: see Topic.RetainDead and
	// Topic.MaxDead.
	Purged uint64 `json:"purged"`

	// Abandoned counts handlers that had not returned one lease after Topic.Timeout, or after
	// losing their lease. They no longer count as running, and others take their places. No
	// more than Topic.Concurrency of them may hang at the same time.
	Abandoned uint64 `json:"abandoned"`

	// Again counts the tasks leased after an earlier lease had ended unsettled, and Lost the
	// leases lost here. A task that may have run twice is counted in one of them.
	Again uint64 `json:"again"`
	Lost  uint64 `json:"lost"`

	// Early counts the tasks handled before they were due, by the engine's clock. It is 0
	// unless the engine has a fault.
	Early uint64 `json:"early"`

	// Late is how long after the action time first attempts began. For a task put off it
	// includes that delay.
	Late histogram.Durations `json:"-"`

	// Took is how long handlers took.
	Took histogram.Durations `json:"-"`
}

// Stats returns the counts of this node for each topic that it serves, or has counted for, by name.
func (c *Center) Stats() []Stats {
	c.mu.Lock()
	defer c.mu.Unlock()
	all := make(map[string]Stats)
	for name, d := range c.dispatchers {
		all[name] = d.stats()
	}
	for name, w := range c.workers {
		stats := w.stats()
		stats.Add(all[name]) // it was pulled, too
		all[name] = stats
	}
	return slices.SortedFunc(maps.Values(all), func(a, b Stats) int { return cmp.Compare(a.Topic, b.Topic) })
}

// Add adds other figures of the same topic, such as those of another node.
func (s *Stats) Add(other Stats) {
	s.Slots = append(slices.Clip(s.Slots), other.Slots...)
	s.Queued += other.Queued
	s.Running += other.Running
	s.Waiting += other.Waiting
	s.Done += other.Done
	s.Failed += other.Failed
	s.Dead += other.Dead
	s.GivenUp += other.GivenUp
	s.Accepted += other.Accepted
	s.Postponed += other.Postponed
	s.Returned += other.Returned
	s.Rescued += other.Rescued
	s.Pulled += other.Pulled
	s.Purged += other.Purged
	s.Abandoned += other.Abandoned
	s.Again += other.Again
	s.Lost += other.Lost
	s.Early += other.Early
	s.Late.Add(other.Late)
	s.Took.Add(other.Took)
}

// began counts how late a first attempt has begun.
func (s *Stats) began(late time.Duration) {
	if late < 0 {
		s.Early++
	} else {
		s.Late.Observe(late)
	}
}

// isGivenUp reports whether an outcome ends a task, or a run of a periodic one, for good and without success.
func isGivenUp(o engine.Outcome) bool { return o.As == Dead || o.NewRun && o.Error != "" }

// gaveUp counts an outcome if it is given up.
func (s *Stats) gaveUp(o engine.Outcome) {
	if !isGivenUp(o) {
		return
	}
	s.Dead++
	if o.As != Dead {
		s.GivenUp++
	}
}
