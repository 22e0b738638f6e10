package timeout

import (
	"math"
	"slices"
	"time"

	"golang.org/x/time/rate"

	"github.com/heartwheel-go/heartwheel/timeout/engine"
)

// The limits of a topic for all nodes are dealt with its slots: no store is asked. A node knows its
// slots, so it knows its part, and the parts of all nodes of one view are the whole. Nodes can have different views,
// so two rules bound the sum of their parts:
//   - A node has no part if its last good beat began more than Config.TTL ago, by its monotonic clock. The other
//     nodes can't have counted it out before.
//   - A node's part grows a TTL later if another node may know only a view in which its own part is greater. A TTL
//     later that node has a newer view, or no part.

// allowed returns how many tasks of a topic a node may run at the same time, and how many it may
// begin in a second: by the topic's limits of a node, and the parts of those for all nodes that
// go with its slots. Without a view the slots are nil. Then the node has no part, since each of
// several nodes would take the whole.
func allowed(topic Topic, slots []int) (places int, perSecond float64) {
	places, perSecond = topic.Concurrency, math.Inf(1)
	if topic.Rate > 0 {
		perSecond = topic.Rate
	}
	if topic.GlobalConcurrency > 0 {
		places = min(places, part(topic.GlobalConcurrency, topic.Slots, slots))
	}
	if topic.GlobalRate > 0 {
		perSecond = min(perSecond, topic.GlobalRate*float64(len(slots))/float64(topic.Slots))
	}
	if perSecond == 0 {
		places = 0
	}
	return places, perSecond
}

// limited reports whether a topic has a limit for all nodes.
func limited(topic Topic) bool { return topic.GlobalConcurrency > 0 || topic.GlobalRate > 0 }

// contended reports whether another node of a view has a greater part of the limits by the view before. It may
// not know the later view yet.
func contended(topic Topic, node string, before, view engine.View) bool {
	then, now := before.Owners(topic.Name, topic.Slots), view.Owners(topic.Name, topic.Slots)
	return slices.ContainsFunc(view.Nodes, func(other engine.Node) bool {
		places, perSecond := allowed(topic, owned(then, other.Name))
		fewer, slower := allowed(topic, owned(now, other.Name))
		return other.Name != node && (fewer < places || slower < perSecond)
	})
}

// owned returns the slots of a node.
func owned(owners []string, node string) (slots []int) {
	for slot, owner := range owners {
		if owner == node {
			slots = append(slots, slot)
		}
	}
	return slots
}

// bound is a part of the limits for all nodes that a node may not exceed for some time.
type bound struct {
	until     time.Time
	places    int
	perSecond float64
}

// share returns what is allowed to the worker now, and when that changes without another beat: zero if never. w.mu must be
// held.
func (w *worker) share(now time.Time) (places int, perSecond float64, until time.Time) {
	slots, until := w.slots, w.fresh
	if !now.Before(w.fresh) {
		slots, until = nil, time.Time{}
	}
	places, perSecond = allowed(w.topic, slots)
	w.bounds = slices.DeleteFunc(w.bounds, func(b bound) bool { return !now.Before(b.until) })
	for _, b := range w.bounds {
		if limited(w.topic) {
			places, perSecond = min(places, b.places), min(perSecond, b.perSecond)
		}
		if b.until.Before(until) {
			until = b.until
		}
	}
	return places, perSecond, until
}

// wanted returns the slots to ask for. While slots with a limit for all nodes change hands, the new owner may
// have no part yet, so every node asks for all. w.mu must be held.
func (w *worker) wanted(now time.Time) []int {
	if limited(w.topic) && now.Before(w.handover) {
		return nil
	}
	return w.slots
}

// part returns the places of some slots if all slots together have limit places. The places of the
// first k slots are a k-th part of all, rounded down. So all slots together have exactly limit,
// two slots differ by one at most, and with limit at least all each has one.
func part(limit, all int, slots []int) (places int) {
	for _, slot := range slots {
		if slot < all { // no earlier number of slots is higher
			places += limit*(slot+1)/all - limit*slot/all
		}
	}
	return places
}

// deal fits the worker to its topic and its slots. w.mu must be held.
func (w *worker) deal(now time.Time) {
	places, perSecond, until := w.share(now)
	w.redealAt = until
	fewer := places < w.places
	if places != w.places {
		w.places = places
		w.limit = w.base()
		w.lookNow()
	}
	if fewer {
		w.shed(places)
	}
	burst := burstOf(perSecond)
	switch {
	case math.IsInf(perSecond, 1):
		w.limiter = nil
	case w.limiter == nil:
		w.limiter = rate.NewLimiter(rate.Limit(perSecond), burst)
	case w.limiter.Limit() != rate.Limit(perSecond):
		w.limiter.SetLimitAt(now, rate.Limit(perSecond))
		w.limiter.SetBurstAt(now, burst)
	}
	w.hire()
}

// redeal deals anew if the worker's part of a limit for all nodes has changed since. It reports whether that comes
// without another beat. w.mu must be held.
func (w *worker) redeal(now time.Time) bool {
	if limited(w.topic) && !w.redealAt.IsZero() && !now.Before(w.redealAt) {
		w.deal(now)
	}
	return limited(w.topic) && !w.redealAt.IsZero()
}

// burstOf returns how many tasks may begin at once: those of a tenth of a second, or one.
func burstOf(perSecond float64) int {
	if perSecond == 0 {
		return 0
	}
	return max(int(min(perSecond, engine.MaxRate)/10), 1)
}

// shed hands back the end of the queue, due as before, so that other nodes can run it. w.mu must be
// held.
func (w *worker) shed(keep int) {
	for len(w.queue) > keep {
		last := w.queue[len(w.queue)-1]
		w.queue[len(w.queue)-1] = nil // it must not stay in memory
		w.queue = w.queue[:len(w.queue)-1]
		if !last.over {
			w.giveBack(last, last.Due)
		}
	}
}
