package redis

import (
	"cmp"
	"math"
	"slices"
	"sync"
	"time"
)

// hints are what this process knows of when the slots of a topic have something due. They
// only save asking: a slot is asked every Config.PollInterval whatever they say.
type hints struct {
	mu    sync.Mutex
	slots []hint
}

// hint is what is known of a slot. Times are the server's, in milliseconds.
type hint struct {
	next    int64 // the first time there, zero for none
	backlog int64 // how many are due, as of the last answer
	now     int64 // the server's clock at asked, or later
	asked   time.Time
	sets    int       // counts what was set, to see what an answer can't know
	failure error     // of the last question
	told    int64     // the server's clock in the last answer
	came    time.Time // when that came
}

// takeOver has h know what other knows of the same slots.
func (h *hints) takeOver(other *hints) {
	other.mu.Lock()
	defer other.mu.Unlock()
	copy(h.slots, other.slots)
}

// reset forgets all.
func (h *hints) reset() {
	h.mu.Lock()
	defer h.mu.Unlock()
	for i := range h.slots {
		s := &h.slots[i]
		*s = hint{sets: s.sets + 1}
	}
}

// set notes a due time of a slot.
func (h *hints) set(slot int, at int64) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if slot >= len(h.slots) {
		return
	}
	s := &h.slots[slot]
	s.sets++
	if at = max(at, 1); s.next == 0 || at < s.next {
		s.next = at
	}
}

// visit is a slot to be asked, and for how many tasks.
type visit struct {
	slot, max int
	asked     time.Time
	clock     int64 // the server's then, or a little less; zero if it is not known
	sets      int
}

// visits returns the slots to be asked, the one with the earliest task first, and
// shares room among them. There is always one, but for no slots.
func (h *hints) visits(slots []int, poll time.Duration, room int) []visit {
	h.mu.Lock()
	defer h.mu.Unlock()
	now := time.Now()
	var visits []visit
	ask := func(slot int) { visits = append(visits, h.visit(slot, now)) }
	oldest := -1
	for _, slot := range slots {
		s := &h.slots[slot]
		since := now.Sub(s.asked)
		if poll < 0 || s.asked.IsZero() || since >= poll || s.next > 0 && s.next <= s.now+since.Milliseconds()+1 {
			ask(slot)
		}
		if oldest < 0 || s.asked.Before(h.slots[oldest].asked) {
			oldest = slot
		}
	}
	if len(visits) == 0 && oldest >= 0 {
		ask(oldest)
	}
	slices.SortStableFunc(visits, func(a, b visit) int { return cmp.Compare(h.first(a.slot), h.first(b.slot)) })
	h.share(visits, room)
	return visits
}

func (h *hints) visit(slot int, now time.Time) visit {
	s := &h.slots[slot]
	v := visit{slot: slot, asked: now, sets: s.sets}
	if s.told > 0 {
		v.clock = s.told + now.Sub(s.came).Milliseconds()
	}
	return v
}

// first is when a slot has something, as far as is known: those with nothing come last, or they
// would get the share of the others again and again.
func (h *hints) first(slot int) int64 {
	if next := h.slots[slot].next; next > 0 {
		return next
	}
	return math.MaxInt64
}

// share gives each slot with a known backlog room for it, the first ones first, since
// few large portions cost less than many small ones; the others get equal shares.
func (h *hints) share(visits []visit, room int) {
	left := len(visits)
	for i := range visits {
		v := &visits[i]
		v.max = min((room+left-1)/left, batchTasks)
		if backlog := int(h.slots[v.slot].backlog); backlog > v.max {
			v.max = min(backlog, batchTasks, room)
		}
		room -= v.max
		left--
	}
}

// answered notes what a slot has said.
func (h *hints) answered(v visit, now, next, backlog int64, came time.Time) {
	h.mu.Lock()
	defer h.mu.Unlock()
	s := &h.slots[v.slot]
	if s.sets != v.sets && s.next > 0 && (next == 0 || s.next < next) {
		next = s.next // set since it was asked, perhaps
	}
	s.next, s.backlog, s.now, s.asked, s.failure = next, backlog, now, v.asked, nil
	s.told, s.came = now, came
}

// failed notes that a slot is to be left alone for a while, and asked again then.
func (h *hints) failed(v visit, failure error, again time.Duration) {
	h.mu.Lock()
	defer h.mu.Unlock()
	s := &h.slots[v.slot]
	s.asked, s.backlog, s.next, s.failure = v.asked, 0, 0, failure
	if v.clock > 0 {
		s.now = v.clock
		s.next = s.now + again.Milliseconds()
	}
}

// failure returns the failure of a slot that has not answered since, or nil.
func (h *hints) failure(slots []int) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, slot := range slots {
		if failure := h.slots[slot].failure; failure != nil {
			return failure
		}
	}
	return nil
}

// due reports whether some of the slots have due tasks, as of their last answer.
func (h *hints) due(slots []int) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return slices.ContainsFunc(slots, func(slot int) bool { return h.slots[slot].backlog > 0 })
}

// next returns the first time of some slots, or zero.
func (h *hints) next(slots []int) int64 {
	h.mu.Lock()
	defer h.mu.Unlock()
	var first int64
	for _, slot := range slots {
		if at := h.slots[slot].next; at > 0 && (first == 0 || at < first) {
			first = at
		}
	}
	return first
}
