package redis

import (
	"cmp"
	"math"
	"slices"
	"sync"
	"time"
)

// dueCache is what this process knows of when the partitions of a topic have something due. It
// only saves asking: a partition is asked every Config.PollInterval whatever they say.
type dueCache struct {
	mu    sync.Mutex
	parts []partDue
}

// partDue is what is known of a partition. Times are the server's, in milliseconds.
type partDue struct {
	next    int64 // the first time there, zero for none
	backlog int64 // how many are due, as of the last answer
	now     int64 // the server's clock at asked, or later
	asked   time.Time
	sets    int       // counts what was set, to see what an answer can't know
	failure error     // of the last question
	clock   int64     // the server's clock in the last answer
	came    time.Time // when that came
}

// set notes a due time of a partition.
func (d *dueCache) set(part int, at int64) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if part >= len(d.parts) {
		return
	}
	s := &d.parts[part]
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
func (d *dueCache) visits(parts []int, poll time.Duration, room int) []visit {
	d.mu.Lock()
	defer d.mu.Unlock()
	now := time.Now()
	var visits []visit
	ask := func(part int) { visits = append(visits, d.visit(part, now)) }
	oldest := -1
	for _, part := range parts {
		s := &d.parts[part]
		since := now.Sub(s.asked)
		if poll < 0 || s.asked.IsZero() || since >= poll || s.next > 0 && s.next <= s.now+since.Milliseconds()+1 {
			ask(part)
		}
		if oldest < 0 || s.asked.Before(d.parts[oldest].asked) {
			oldest = part
		}
	}
	if len(visits) == 0 && oldest >= 0 {
		ask(oldest)
	}
	slices.SortStableFunc(visits, func(a, b visit) int { return cmp.Compare(d.first(a.part), d.first(b.part)) })
	d.share(visits, room)
	return visits
}

func (d *dueCache) visit(part int, now time.Time) visit {
	s := &d.parts[part]
	v := visit{part: part, asked: now, sets: s.sets}
	if s.clock > 0 {
		v.clock = s.clock + now.Sub(s.came).Milliseconds()
	}
	return v
}

// first is when a partition has something, as far as is known: those with nothing come last, or they
// would get the share of the others again and again.
func (d *dueCache) first(part int) int64 {
	if next := d.parts[part].next; next > 0 {
		return next
	}
	return math.MaxInt64
}

// share gives each partition with a known backlog room for it, the first ones first, since
// few large portions cost less than many small ones; the others get equal shares.
func (d *dueCache) share(visits []visit, room int) {
	left := len(visits)
	for i := range visits {
		v := &visits[i]
		v.max = min((room+left-1)/left, batchTasks)
		if backlog := int(d.parts[v.part].backlog); backlog > v.max {
			v.max = min(backlog, batchTasks, room)
		}
		room -= v.max
		left--
	}
}

// answered notes what a partition has said.
func (d *dueCache) answered(v visit, now, next, backlog int64, came time.Time) {
	d.mu.Lock()
	defer d.mu.Unlock()
	s := &d.parts[v.part]
	if s.sets != v.sets && s.next > 0 && (next == 0 || s.next < next) {
		next = s.next // set since it was asked, perhaps
	}
	s.next, s.backlog, s.now, s.asked, s.failure = next, backlog, now, v.asked, nil
	s.clock, s.came = now, came
}

// failed notes that a partition is to be left alone for a while, and asked again then.
func (d *dueCache) failed(v visit, failure error, again time.Duration) {
	d.mu.Lock()
	defer d.mu.Unlock()
	s := &d.parts[v.part]
	s.asked, s.backlog, s.next, s.failure = v.asked, 0, 0, failure
	if v.clock > 0 {
		s.now = v.clock
		s.next = s.now + again.Milliseconds()
	}
}

// failure returns the failure of a partition that has not answered since, or nil.
func (d *dueCache) failure(parts []int) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, part := range parts {
		if failure := d.parts[part].failure; failure != nil {
			return failure
		}
	}
	return nil
}

// any reports whether some of the partitions have due tasks, as of their last answer.
func (d *dueCache) any(parts []int) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return slices.ContainsFunc(parts, func(part int) bool { return d.parts[part].backlog > 0 })
}

// next returns the first time of some partitions, or zero.
func (d *dueCache) next(parts []int) int64 {
	d.mu.Lock()
	defer d.mu.Unlock()
	var first int64
	for _, part := range parts {
		if at := d.parts[part].next; at > 0 && (first == 0 || at < first) {
			first = at
		}
	}
	return first
}
