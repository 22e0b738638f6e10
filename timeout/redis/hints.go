package redis

import (
	"cmp"
	"math"
	"slices"
	"sync"
	"time"
)

// hints are what this process knows of when the partitions of a topic have something due. They
// only save asking: a partition is asked every Config.PollInterval whatever they say.
type hints struct {
	mu    sync.Mutex
	parts []hint
}

// hint is what is known of a partition. Times are the server's, in milliseconds.
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

// set notes a due time of a partition.
func (h *hints) set(part int, at int64) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if part >= len(h.parts) {
		return
	}
	s := &h.parts[part]
	s.sets++
	if at = max(at, 1); s.next == 0 || at < s.next {
		s.next = at
	}
}

// visit is a partition to be asked, and for how many tasks.
type visit struct {
	part, max int
	asked     time.Time
	clock     int64 // the server's then, or a little less; zero if it is not known
	sets      int
}

// visits returns the partitions to be asked, the one with the earliest task first, and
// shares room among them. There is always one, but for no partitions.
func (h *hints) visits(parts []int, poll time.Duration, room int) []visit {
	h.mu.Lock()
	defer h.mu.Unlock()
	now := time.Now()
	var visits []visit
	ask := func(part int) { visits = append(visits, h.visit(part, now)) }
	oldest := -1
	for _, part := range parts {
		s := &h.parts[part]
		since := now.Sub(s.asked)
		if poll < 0 || s.asked.IsZero() || since >= poll || s.next > 0 && s.next <= s.now+since.Milliseconds()+1 {
			ask(part)
		}
		if oldest < 0 || s.asked.Before(h.parts[oldest].asked) {
			oldest = part
		}
	}
	if len(visits) == 0 && oldest >= 0 {
		ask(oldest)
	}
	slices.SortStableFunc(visits, func(a, b visit) int { return cmp.Compare(h.first(a.part), h.first(b.part)) })
	h.share(visits, room)
	return visits
}

func (h *hints) visit(part int, now time.Time) visit {
	s := &h.parts[part]
	v := visit{part: part, asked: now, sets: s.sets}
	if s.told > 0 {
		v.clock = s.told + now.Sub(s.came).Milliseconds()
	}
	return v
}

// first is when a partition has something, as far as is known: those with nothing come last, or they
// would get the share of the others again and again.
func (h *hints) first(part int) int64 {
	if next := h.parts[part].next; next > 0 {
		return next
	}
	return math.MaxInt64
}

// share gives each partition with a known backlog room for it, the first ones first, since
// few large portions cost less than many small ones; the others get equal shares.
func (h *hints) share(visits []visit, room int) {
	left := len(visits)
	for i := range visits {
		v := &visits[i]
		v.max = min((room+left-1)/left, batchTasks)
		if backlog := int(h.parts[v.part].backlog); backlog > v.max {
			v.max = min(backlog, batchTasks, room)
		}
		room -= v.max
		left--
	}
}

// answered notes what a partition has said.
func (h *hints) answered(v visit, now, next, backlog int64, came time.Time) {
	h.mu.Lock()
	defer h.mu.Unlock()
	s := &h.parts[v.part]
	if s.sets != v.sets && s.next > 0 && (next == 0 || s.next < next) {
		next = s.next // set since it was asked, perhaps
	}
	s.next, s.backlog, s.now, s.asked, s.failure = next, backlog, now, v.asked, nil
	s.told, s.came = now, came
}

// failed notes that a partition is to be left alone for a while, and asked again then.
func (h *hints) failed(v visit, failure error, again time.Duration) {
	h.mu.Lock()
	defer h.mu.Unlock()
	s := &h.parts[v.part]
	s.asked, s.backlog, s.next, s.failure = v.asked, 0, 0, failure
	if v.clock > 0 {
		s.now = v.clock
		s.next = s.now + again.Milliseconds()
	}
}

// failure returns the failure of a partition that has not answered since, or nil.
func (h *hints) failure(parts []int) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, part := range parts {
		if failure := h.parts[part].failure; failure != nil {
			return failure
		}
	}
	return nil
}

// due reports whether some of the partitions have due tasks, as of their last answer.
func (h *hints) due(parts []int) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return slices.ContainsFunc(parts, func(part int) bool { return h.parts[part].backlog > 0 })
}

// next returns the first time of some partitions, or zero.
func (h *hints) next(parts []int) int64 {
	h.mu.Lock()
	defer h.mu.Unlock()
	var first int64
	for _, part := range parts {
		if at := h.parts[part].next; at > 0 && (first == 0 || at < first) {
			first = at
		}
	}
	return first
}
