package fleet

import (
	"slices"
	"sync"
	"time"

	"github.com/heartwheel-go/heartwheel/timeout/internal/groupcommit"
	"github.com/heartwheel-go/heartwheel/wheel"
)

// renewer has the sessions whose leases are to be extended. A session that is due stays here,
// or in flight, until it has been extended or is over: its timer does not run meanwhile.
//
// Slots that don't answer have a lane of their own: of several servers one may hang, and whoever is
// on the others must not wait for it, again and again.
type renewer struct {
	mu     sync.Mutex
	lanes  [2]lane // of slots that answer, and of those that don't
	silent []bool  // the latter, by slot
}

// lane is what a renew loop works on, and who registers sessions beside it.
type lane struct {
	waiting []*Session
	flight  []*Session
	leaving []leaving
	wake    chan struct{} // has an element when there may be something; nil where slots don't answer

	registrar groupcommit.Committer[registration, registered] // of new sessions, which no loop waits for
}

// leaving is a session that the node has no more, and what Redis has to be told.
type leaving struct {
	claim
	slot uint16
	how  leave
	from time.Duration
}

func (r *renewer) begin(slots int) {
	r.silent = make([]bool, slots)
	r.lanes[0].wake = make(chan struct{}, 1)
}

// due is the wheel's.
func (r *renewer) due(_ *wheel.TimerOf[*Session], s *Session) {
	r.mu.Lock()
	r.add(s)
	r.mu.Unlock()
}

// add has a session wait, once. One that is in flight waits for the end of that: in two flights, perhaps
// of two lanes, it would be taken for somebody else's where the one has registered it again and the other
// asks with the token that it had before. r.mu must be held.
func (r *renewer) add(s *Session) {
	if s.waits {
		return
	}
	s.waits = true
	if !s.flies {
		r.queue(s)
	}
}

// queue puts a session into the lane of its slot. r.mu must be held.
func (r *renewer) queue(s *Session) {
	l := r.of(s.slot)
	l.waiting = append(l.waiting, s)
}

// of returns the lane of a slot. r.mu must be held.
func (r *renewer) of(slot uint16) *lane {
	if r.silent[slot] {
		return &r.lanes[1]
	}
	return &r.lanes[0]
}

// isSilent reports whether a lane is that of slots that don't answer: a call there takes all the time
// that it has, so one that fails is enough for a while.
func (r *renewer) isSilent(l *lane) bool { return l == &r.lanes[1] }

// laneOf returns the lane of a slot, as it is now.
func (r *renewer) laneOf(slot uint16) *lane {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.of(slot)
}

// quiet returns which slots don't answer.
func (r *renewer) quiet() []bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.silent)
}

// push has sessions be extended now, whenever they are due.
func (r *renewer) push(sessions []*Session) {
	if len(sessions) == 0 {
		return
	}
	r.mu.Lock()
	for _, s := range sessions {
		r.add(s)
	}
	r.mu.Unlock()
	r.wakeUp()
}

// wakeUp has slots that answer be asked at once. The others are tried once per tick, whoever comes: it
// may be very many that close their connections when Redis is away.
func (r *renewer) wakeUp() {
	select {
	case r.lanes[0].wake <- struct{}{}:
	default:
	}
}

// leave has Redis be told, soon, what becomes of a session.
func (n *Node) leave(c claim, how leave) {
	r := &n.renewer
	slot := n.slotOf(c.id)
	r.mu.Lock()
	l := r.of(slot)
	l.leaving = append(l.leaving, leaving{c, slot, how, n.elapsed()})
	r.mu.Unlock()
	r.wakeUp()
}

// take returns the next sessions of a lane that are to be extended. They are in flight then.
func (r *renewer) take(l *lane) []*Session {
	r.mu.Lock()
	defer r.mu.Unlock()
	size := min(len(l.waiting), renewBatch)
	l.flight = slices.DeleteFunc(slices.Clone(l.waiting[:size]), func(s *Session) bool {
		s.waits, s.flies = false, s.Reason() == 0
		return !s.flies
	})
	if l.waiting = l.waiting[size:]; len(l.waiting) == 0 {
		l.waiting = nil
	}
	return l.flight
}

// land ends the flight of a lane, and has sessions of it wait again.
func (r *renewer) land(l *lane, again []*Session) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, s := range l.flight {
		if s.flies = false; s.waits {
			r.queue(s)
		}
	}
	l.flight = nil
	for _, s := range again {
		r.add(s)
	}
}

// takeLeaving returns the next of a lane of which Redis is to be told.
func (r *renewer) takeLeaving(l *lane) []leaving {
	r.mu.Lock()
	defer r.mu.Unlock()
	batch := l.leaving[:min(len(l.leaving), batchSize)]
	if l.leaving = l.leaving[len(batch):]; len(l.leaving) == 0 {
		l.leaving = nil
	}
	return batch
}

// heard notes which slots have answered, and which have not, and has what waits change to the lane
// where it belongs. It reports whether some were silent before, and whether some are now.
func (r *renewer) heard(slots []uint16, answered func(i int) bool) (before, now bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	before = slices.Contains(r.silent, true)
	changed := false
	for i, slot := range slots {
		if silent := !answered(i); silent != r.silent[slot] {
			r.silent[slot], changed = silent, true
		}
	}
	if changed {
		r.deal()
	}
	return before, slices.Contains(r.silent, true)
}

// deal has all that waits be in the lane where it belongs. r.mu must be held.
func (r *renewer) deal() {
	sessions := slices.Concat(r.lanes[0].waiting, r.lanes[1].waiting)
	gone := slices.Concat(r.lanes[0].leaving, r.lanes[1].leaving)
	for i := range r.lanes {
		r.lanes[i].waiting, r.lanes[i].leaving = nil, nil
	}
	for _, s := range sessions {
		r.queue(s)
	}
	for _, g := range gone {
		l := r.of(g.slot)
		l.leaving = append(l.leaving, g)
	}
}

// batches returns how many there are for a lane.
func (r *renewer) batches(l *lane) int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return max((len(l.waiting)+renewBatch-1)/renewBatch, (len(l.leaving)+batchSize-1)/batchSize)
}

// unsent returns of how many that have left Redis was not told.
func (r *renewer) unsent() (count int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for i := range r.lanes {
		count += len(r.lanes[i].leaving)
	}
	return count
}

// outlived returns the sessions whose lease will be over at limit, by when it was asked for.
func (r *renewer) outlived(limit time.Duration) (over []*Session) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for i := range r.lanes {
		for _, list := range [][]*Session{r.lanes[i].flight, r.lanes[i].waiting} {
			for _, s := range list {
				if time.Duration(s.good.Load()) <= limit {
					over = append(over, s)
				}
			}
		}
	}
	return over
}
