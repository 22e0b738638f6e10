package timeout

import (
	"maps"
	"math"
	"math/bits"
	"slices"
	"time"

	"github.com/heartwheel-go/heartwheel/timeout/engine"
)

// The limits of a topic for all nodes are dealt with its slots: no store is asked. A node knows its slots, so it knows its
// part, and the parts of all nodes of one view are the whole. Nodes may have different views for a while, so not all slots
// of a node count:
//   - All count until Config.TTL after its last good heartbeat began, and then none. No other node can have counted it
//     out before.
//   - If another node has a smaller part now, and may not know it yet, a new slot counts once it has been this node's for
//     the longest TTL of all nodes: until a heartbeat that began so long after the answer that gave it. By then the
//     other one has learned of it, or none of its slots counts. If a node has gone, its slots count for others at
//     once. A node that is alone waits for nobody.
//
// So a part of the limits may be unused for a TTL after a node has come. More than the limits may be in use if a node comes
// and goes between two heartbeats of another, until that one's next heartbeat.

// ownership is a worker's part of the slots. worker.mu guards it.
type ownership struct {
	owners []string          // of all slots, by the last view; nil before the first one
	slots  []int             // to ask for; nil means all
	moves  map[int]time.Time // when slots changed hands that may not count for their owners yet, be it this node or another
	wait   time.Duration     // for how long they may not
	fresh  time.Time         // until when the other slots of this node count
}

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
		places = min(places, placesOf(topic.GlobalConcurrency, topic.Slots, slots))
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

// contended reports whether another node that has not gone has a smaller part of the limits by the later owners. It may
// not know them yet.
func contended(topic Topic, node string, before, later []string, gone func(node string) bool) bool {
	others := slices.Compact(slices.Sorted(slices.Values(before)))
	return slices.ContainsFunc(others, func(other string) bool {
		if other == node || gone(other) {
			return false
		}
		places, perSecond := shareOf(topic, other, before)
		fewer, slower := shareOf(topic, other, later)
		return fewer < places || slower < perSecond
	})
}

// shareOf returns the part of a topic's limits for all nodes that a node has: places, and the share of all slots.
func shareOf(topic Topic, node string, owners []string) (places int, share float64) {
	slots := engine.SlotsOf(owners, node)
	return placesOf(topic.GlobalConcurrency, len(owners), slots), float64(len(slots)) / float64(len(owners))
}

// lasts reports whether an end has yet to come, by the monotonic clock and by the wall clock: the former stands still while
// the machine is suspended.
func lasts(end, now time.Time) bool { return now.Before(end) && now.Round(0).Before(end.Round(0)) }

// assign takes the owners of the topic's slots by the view of a heartbeat that began at that time. They are as before unless the
// view has changed or the topic has grown. Without any owners the worker asks for all slots: so does that of a newer topic,
// unless the heartbeat has just answered.
func (w *worker) assign(view engine.View, began time.Time, answered, changed bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	has, had := w.topic.Slots, len(w.owners)
	var owners []string
	if changed || has != had && (answered || had > 0) {
		owners = view.Owners(w.name, has)
	}
	wait := max(w.c.cfg.TTL, view.TTL)
	if len(view.Nodes) == 1 && view.Leader() == w.c.cfg.Node {
		wait = 0 // there is nobody to wait for
	}
	gone := func(node string) bool {
		return !slices.ContainsFunc(view.Nodes, func(n engine.Node) bool { return n.Name == node })
	}
	w.own(owners, gone, began, wait)
}

// own takes the owners of the slots, or nil if they are as before. Slots that change hands may not count for wait. w.mu must be
// held.
func (w *worker) own(owners []string, gone func(node string) bool, began time.Time, wait time.Duration) {
	now := time.Now()
	member := lasts(w.fresh, now)
	if !member { // others may have counted this node out
		for _, slot := range w.slots {
			w.moves[slot] = now
		}
	}
	if w.owners == nil || owners != nil && !slices.Equal(owners, w.owners) {
		w.trade(owners, member && !contended(w.topic, w.c.cfg.Node, w.owners, owners, gone), now)
	}
	w.wait = wait
	maps.DeleteFunc(w.moves, func(slot int, at time.Time) bool {
		_, own := slices.BinarySearch(w.slots, slot)
		return wait == 0 || own && began.Sub(at) >= wait
	})
	w.fresh = began.Add(w.c.cfg.TTL)
	w.deal(now)
}

// trade takes other owners. New slots count at once, or later. w.mu must be held.
func (w *worker) trade(owners []string, atOnce bool, now time.Time) {
	moves := make(map[int]time.Time)
	for slot, owner := range owners {
		before := slot & (len(w.owners) - 1) // there may be more slots now
		switch at, moved := w.moves[before]; {
		case w.owners == nil || w.owners[before] != owner:
			if owner != w.c.cfg.Node || !atOnce {
				moves[slot] = now
			}
		case moved:
			moves[slot] = at
		}
	}
	var slots []int
	if owners != nil {
		slots = engine.SlotsOf(owners, w.c.cfg.Node)
	}
	w.owners, w.slots, w.moves, w.renewed = owners, slots, moves, time.Time{}
	w.drained()
	w.lookNow()
}

// disown ends the worker's part of limits for all nodes.
func (w *worker) disown() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.fresh = time.Time{}
	w.deal(time.Now())
}

// wanted returns the slots to ask for. While slots with a limit for all nodes change hands, they may not count for the
// new owners yet, so the others ask for them, too, until the last of the nodes counts its own. w.mu must be held.
func (w *worker) wanted(now time.Time) []int {
	if w.slots == nil || !limited(w.topic) || len(w.moves) == 0 {
		return w.slots
	}
	wanted := slices.Clone(w.slots)
	for slot, at := range w.moves {
		if now.Before(at.Add(w.wait + w.wait/2)) {
			wanted = append(wanted, slot)
		}
	}
	slices.Sort(wanted)
	return slices.Compact(wanted)
}

// counted returns the slots that count. worker.mu must be held.
func (s *ownership) counted(now time.Time) []int {
	if !lasts(s.fresh, now) {
		return nil
	}
	return slices.DeleteFunc(slices.Clone(s.slots), func(slot int) bool { return !s.moves[slot].IsZero() })
}

// placesOf returns the places of some slots if all slots together have limit places. The places of the first k slots, in
// the order of their reversed bits, are a k-th part of all, rounded down. So all slots together have exactly limit,
// two slots differ by one at most, and with limit at least all each has one. If there are twice as many slots, the
// places of a slot are those of the two that it becomes, since these follow each other.
func placesOf(limit, all int, slots []int) (places int) {
	for _, slot := range slots {
		if slot < all { // no earlier number of slots is higher
			k := int(bits.Reverse32(uint32(slot)) >> (32 - bits.Len(uint(all-1)))) //nolint:gosec // at most 1023
			places += limit*(k+1)/all - limit*k/all
		}
	}
	return places
}

// deal fits the worker to its topic and its slots. w.mu must be held.
func (w *worker) deal(now time.Time) {
	places, perSecond := allowed(w.topic, w.counted(now))
	fewer := places < w.places
	if places != w.places {
		w.places, w.stuck = places, false
		w.limit = w.base()
		w.lookNow()
	}
	if fewer {
		w.releaseQueue(places)
	}
	w.setRate(perSecond, now)
	w.hire()
}

// redeal takes the worker's part of a limit for all nodes away if its view has ended. It reports whether it has a part.
// w.mu must be held.
func (w *worker) redeal(now time.Time) bool {
	if !limited(w.topic) || w.places == 0 {
		return false
	}
	if lasts(w.fresh, now) {
		return true
	}
	w.deal(now)
	return false
}

// releaseQueue hands back the end of the queue, due as before, so that other nodes can run it. w.mu must be
// held.
func (w *worker) releaseQueue(keep int) {
	for len(w.queue) > keep {
		last := w.queue[len(w.queue)-1]
		w.queue[len(w.queue)-1] = nil // it must not stay in memory
		w.queue = w.queue[:len(w.queue)-1]
		w.release(last, &w.counts.Returned, 0)
	}
}
