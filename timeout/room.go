package timeout

import (
	"slices"
	"time"
)

const (
	// queueMax is the largest number of tasks leased ahead, unless Topic.Concurrency is larger.
	queueMax = 2048

	// queueFor is the intended wait of a leased task for a handler. It is long enough to make a
	// call of the engine worthwhile, and short enough to leave tasks to other nodes.
	queueFor = 100 * time.Millisecond
)

// room returns the number of tasks to ask a part of the engine for now: its share, if others have something to be looked
// at, too. If there are others, it is half of the room at most, since the part may hang with it. Late tasks of other nodes take
// turns with those of the own slots, also under load: it would not end for them. w.mu must be held.
func (w *worker) room(p *part, now time.Time) (tasks int, overdue time.Duration) {
	if !p.idle {
		tasks = w.share(p, min(w.wants(), w.tokens(now)), now)
	}
	if p.rescue.IsZero() && w.owners != nil {
		p.rescue = now.Add(w.rescueWait())
	}
	own := tasks > 0 && (len(p.outcomes) > 0 || !now.Before(p.look)) // its own slots are to be looked at
	if p.gone || p.rescue.IsZero() || now.Before(p.rescue) || own && p.rescued {
		return tasks, 0
	}
	if spare := w.spare(now); spare > 0 {
		return spare, w.topic.Lease
	}
	return tasks, 0
}

// share returns the share of a part of the room. w.mu must be held.
func (w *worker) share(p *part, room int, now time.Time) int {
	sharers := 1
	for _, other := range w.parts {
		if other != p && !other.idle && other.calls == 0 && !now.Before(other.look) && !now.Before(other.until) {
			sharers++
		}
	}
	others := w.others(p)
	if others {
		sharers = max(sharers, 2)
	}
	room = (room + sharers - 1) / sharers
	if others && !p.full { // the other parts can be asked at the same time
		room = min(room, (w.limit+len(w.parts)-1)/len(w.parts))
	}
	return max(room, 0)
}

// wants is room without the limit of Topic.Rate. w.mu must be held.
func (w *worker) wants() int {
	if w.stopping || awaitsResume(w.topic) || w.stuck || w.hold.leases == leaseNone || w.unread != nil || w.places == 0 || w.slots != nil && len(w.slots) == 0 {
		return 0
	}
	limit := w.limit
	if w.c.fairQueue.limit > 0 {
		free := min(w.c.fairQueue.free(), w.places)
		if free == 0 && time.Now().Before(w.rest) {
			return 0
		}
		limit = max(limit, free)
	}
	room := limit - len(w.queue)
	if room < w.least() {
		return 0
	}
	room -= w.asked()
	if w.isFull() {
		room = min(room, (limit+1)/2) // and as much by another call
	}
	if w.limiter != nil { // tasks that wait for places may all begin at once: no more than a burst
		room = min(room, w.places-w.busy+w.limiter.Burst()-len(w.queue)-w.asked())
	}
	if w.hold.leases == leaseOne {
		room = min(room, 1-w.asked())
	}
	return max(room, 0)
}

// base is the length of the queue allowed at least. With Config.Concurrency it is one, for a topic
// without any task could not say that it waits. w.mu must be held.
func (w *worker) base() int {
	if w.c.fairQueue.limit > 0 {
		return min(w.places, 1)
	}
	return w.places
}

// least is the smallest number of tasks worth a call. It is smaller with a backlog: the tasks are
// surely there, and the queue must not run dry during the call. w.mu must be held.
func (w *worker) least() int {
	if w.isFull() {
		return max(1, w.limit/4)
	}
	return max(1, w.limit/2)
}

// tune fits the queue to the tasks that handlers begin in about queueFor. The queue halves if tasks wait too long, or if the
// engine takes more than a quarter of a lease for a batch: a batch that arrives after its leases ended is leased in
// vain, again and again. The queue doubles if it is nearly empty when a full batch follows a full batch, and handlers
// have begun most of the tasks that have come since it last changed, which are half of the queue or more. w.mu must be held.
func (w *worker) tune(p *part, now time.Time, took time.Duration, leased int, full bool) {
	w.came += leased
	switch {
	case took > w.topic.Lease/4, len(w.queue) > 0 && now.Sub(w.queue[0].queued) > queueFor:
		w.limit, w.came = max(w.limit/2, w.base()), 0
	case len(w.queue) <= w.limit/4 && w.came >= w.limit/2 && full && p.full && took <= w.topic.Lease/8:
		w.limit, w.came = min(2*w.limit, max(queueMax, w.topic.Concurrency)), 0
	}
	p.full = full
}

// isFull reports whether a part of the engine has a backlog. w.mu must be held.
func (w *worker) isFull() bool {
	return slices.ContainsFunc(w.parts, func(p *part) bool { return p.full })
}

// drained forgets backlogs. w.mu must be held.
func (w *worker) drained() {
	for _, p := range w.parts {
		p.full = false
	}
}
