package timeout

import (
	"cmp"
	"math"
	"slices"
	"sync"
	"time"
)

// placeCost is what a topic pays for beginning a task, in place-seconds, besides the time on its place.
// So topics whose tasks take no time share the places of an instant, too.
const placeCost = 1e-3

// claim is what the choice of a topic depends on.
type claim struct {
	used     float64 // place-seconds since the topics began to wait for places
	priority int     // Topic.Priority
}

// before reports whether a topic gets a place before another one: with less use for its priority, or with a
// higher priority if that is equal. The use of a waiting topic stands still, and that of running ones grows.
// So each has its turn. In the long run the topics use the places in proportion to their priorities,
// however long their tasks take (weighted fair queueing).
func (c claim) before(other claim) bool {
	order := cmp.Compare(c.used*float64(other.priority), other.used*float64(c.priority))
	return order < 0 || order == 0 && c.priority > other.priority
}

// fairQueue deals the places of a node to its topics: see Config.Concurrency. A place is a goroutine in
// worker.work. Use counts only as long as a topic waits: places that nobody else wants are free.
type fairQueue struct {
	limit int // zero means none, and nothing else is used

	// mu guards the fields below, and those of the flows. It may be taken with worker.mu held,
	// and not the other way round.
	mu    sync.Mutex
	held  int
	asked int // tasks that calls under way may lease
	at    time.Time
	flows []*flow
}

// flow is a topic with places.
type flow struct {
	claim
	worker *worker
	held   int
	wants  int // places that it can use now, with those held
}

func (t *flow) waits() bool { return t.wants > t.held }

func (a *fairQueue) add(t *flow) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.flows = append(a.flows, t)
}

func (a *fairQueue) remove(t *flow) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.flows = slices.DeleteFunc(a.flows, func(other *flow) bool { return other == t })
}

// free returns how many tasks could begin beside those of calls under way.
func (a *fairQueue) free() int {
	if a.limit == 0 {
		return math.MaxInt
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	return max(a.limit-a.held-a.asked, 0)
}

// ask notes that a call may lease n tasks, or that it has ended if n is negative.
func (a *fairQueue) ask(n int) {
	if a.limit == 0 {
		return
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	a.asked += n
}

// want tells how many places a topic can use now, and returns how many more it gets at once. It waits
// for the rest.
func (a *fairQueue) want(t *flow, priority, wants int, now time.Time) (more int) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.count(now)
	waited := t.waits()
	t.priority, t.wants = priority, wants
	more = max(min(wants-t.held, a.limit-a.held), 0)
	a.give(t, more)
	if t.waits() && !waited {
		a.join(t)
	}
	return more
}

// keeps reports whether a topic keeps a place after a task, for another one. If not, it must return
// the place.
func (a *fairQueue) keeps(t *flow, wants int, now time.Time) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.count(now)
	t.wants = wants
	if wants < t.held || a.best(t) != t {
		return false
	}
	t.used += placeCost
	return true
}

// release returns a place. wants is how many the topic can still use. The place goes to a waiting topic,
// if there is one.
func (a *fairQueue) release(t *flow, wants int, now time.Time) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.count(now)
	waited := t.waits()
	t.wants = wants
	t.held--
	a.held--
	if t.waits() && !waited {
		a.join(t)
	}
	if best := a.best(nil); best != nil && a.held < a.limit {
		a.give(best, 1)
		go best.worker.join()
	}
}

func (a *fairQueue) give(t *flow, n int) {
	t.held += n
	a.held += n
	t.used += placeCost * float64(n)
}

// best returns the topic that gets the next place, of those that wait and of t if it is not nil. Of equals
// it is t, or else the first.
func (a *fairQueue) best(t *flow) *flow {
	best := t
	for _, other := range a.flows {
		if other != t && other.waits() && (best == nil || other.before(best.claim)) {
			best = other
		}
	}
	return best
}

// count adds the use of places since the last count, if a topic has waited.
func (a *fairQueue) count(now time.Time) {
	passed := now.Sub(a.at).Seconds()
	a.at = now
	if passed <= 0 || !slices.ContainsFunc(a.flows, (*flow).waits) {
		return
	}
	for _, t := range a.flows {
		t.used += float64(t.held) * passed
	}
}

// join begins the wait of a topic. The first one makes all begin at zero. A later one has no credit
// for the time when it did not wait.
func (a *fairQueue) join(t *flow) {
	least, others := 0.0, false
	for _, other := range a.flows {
		if used := other.used / float64(max(other.priority, 1)); other != t && other.waits() && (!others || used < least) {
			least, others = used, true
		}
	}
	if others {
		t.used = max(t.used, least*float64(t.priority))
		return
	}
	for _, other := range a.flows {
		other.used = 0
	}
}
