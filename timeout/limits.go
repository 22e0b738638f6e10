package timeout

import (
	"math"
	"time"

	"golang.org/x/time/rate"

	"github.com/heartwheel-go/heartwheel/timeout/engine"
)

// The limits of a topic for all nodes are dealt with its slots: no store is asked. A node knows its
// slots, so it knows its part, and the parts of all nodes of one view are the whole.

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

// fence returns the term of the worker's slots for a topic with a limit for all nodes. It keeps an old
// owner of a slot from further tasks, so that the limit holds. For other topics that is no use: two owners
// are as fast as one. w.mu must be held.
func (w *worker) fence() int64 {
	if w.topic.GlobalConcurrency == 0 && w.topic.GlobalRate == 0 {
		return 0
	}
	return w.term
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
	places, perSecond := allowed(w.topic, w.slots)
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
