package timeout

import (
	"slices"
	"time"
)

// The owner of a slot is a preference: it saves nodes from asking for the same tasks. If a task is
// late by a lease, its owner hangs or has too much to do. Then any node with free places runs it.

// rescueWait is the time until a worker looks for late tasks in the slots of other nodes: about a
// lease, with jitter. w.mu must be held.
func (w *worker) rescueWait() time.Duration { return w.topic.Lease/2 + jitter(w.topic.Lease) }

// spare returns how many tasks of other nodes could begin at once. w.mu must be held.
func (w *worker) spare(now time.Time) int {
	if w.stopping || awaitsResume(w.topic) || w.unread != nil || w.hold.leases != leaseAny || w.isFull() || len(w.queue) > 0 || w.slots == nil || len(w.slots) == w.topic.Slots {
		return 0
	}
	spare := w.places - w.workers - w.asked()
	return min(spare, w.c.fairQueue.free(), w.tokens(now))
}

// foreign returns the slots of other nodes. w.mu must be held.
func (w *worker) foreign() []int {
	foreign := make([]int, 0, w.topic.Slots)
	for slot := range w.topic.Slots {
		if _, own := slices.BinarySearch(w.slots, slot); !own {
			foreign = append(foreign, slot)
		}
	}
	return foreign
}

// releaseHung hands back the queue when all handlers have hung for a lease, or the topic has waited so long
// for a place of the node. The tasks keep their due times, so other nodes see how late they are. w.mu
// must be held.
func (w *worker) releaseHung(now time.Time) {
	if w.c.fairQueue.limit > 0 && len(w.queue) > 0 && now.Sub(w.queue[0].queued) > w.topic.Lease {
		w.releaseQueue(0)
		w.limit, w.rest = w.base(), now.Add(w.topic.Lease)
		w.drained()
		w.hire() // no longer waits
		return
	}
	if w.stuck || w.stopping || len(w.queue) == 0 || w.places == 0 || w.busy < w.places || now.Sub(w.moved) <= w.topic.Lease {
		return
	}
	w.stuck = true
	w.c.cfg.Logger.Warn("timeout: all handlers hang, and what they should run is handed back", "topic", w.name, "tasks", len(w.queue))
	w.releaseQueue(0)
}

// move notes the begin or end of a handler. w.mu must be held.
func (w *worker) move(now time.Time) {
	w.moved = now
	if w.stuck {
		w.stuck = false
		w.lookNow()
	}
}
