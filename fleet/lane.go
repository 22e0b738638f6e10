package fleet

import (
	"slices"
	"sync"
	"time"

	"github.com/heartwheel-go/heartwheel/internal/groupcommit"
	"github.com/heartwheel-go/heartwheel/wheel"
)

// renewer holds the sessions with leases to extend. A due session stays here, or in flight,
// until it has been extended or is over. Its timer does not run meanwhile.
//
// Slots that don't answer have a lane of their own. One server of several may hang, and
// sessions on the other servers must not wait for it again and again.
type renewer struct {
	mu     sync.Mutex
	lanes  [2]lane // of answering slots, and of silent ones
	silent []bool  // whether a slot is silent, by slot
}

// lane is the work of one renew loop, and the registrar beside the loop.
type lane struct {
	waiting []*Session
	flight  []*Session
	leaving []leaving
	wake    chan struct{} // has an element when there may be work; nil for silent slots

	registrar groupcommit.Committer[registration, registered] // of new sessions; no loop waits for it
}

// leaving is the news for Redis of a session gone from the node.
type leaving struct {
	claim
	meta string
	slot uint16
	how  leave
	from time.Duration
}

func (r *renewer) begin(slots int) {
	r.silent = make([]bool, slots)
	r.lanes[0].wake = make(chan struct{}, 1)
}

// due is called by the wheel.
func (r *renewer) due(_ *wheel.TimerOf[*Session], s *Session) {
	r.mu.Lock()
	r.add(s)
	r.mu.Unlock()
}

// add makes a session wait, once. A session in flight waits for the end of its flight. In two
// flights, perhaps of two lanes, the first may register the session again while the second asks
// with the old token: the session would then seem to be another node's. r.mu must be held.
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

// isSilent reports whether a lane is for silent slots. A call there takes its whole
// timeout, so one failure is enough for a while.
func (r *renewer) isSilent(l *lane) bool { return l == &r.lanes[1] }

// laneOf returns the lane of a slot, as it is now.
func (r *renewer) laneOf(slot uint16) *lane {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.of(slot)
}

// quiet tells for each slot whether it is silent.
func (r *renewer) quiet() []bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.silent)
}

// push makes sessions be extended now, due or not.
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

// wakeUp makes the loop ask the answering slots at once. Silent slots are tried once per tick:
// when Redis is away, very many connections may close.
func (r *renewer) wakeUp() {
	select {
	case r.lanes[0].wake <- struct{}{}:
	default:
	}
}

// leave queues the news for Redis of a session gone from the node.
func (n *Node) leave(c claim, meta string, how leave) {
	r := &n.renewer
	slot := n.slotOf(c.id)
	r.mu.Lock()
	l := r.of(slot)
	l.leaving = append(l.leaving, leaving{c, meta, slot, how, n.elapsed()})
	r.mu.Unlock()
	r.wakeUp()
}

// take returns the next sessions of a lane to extend, and puts them in flight.
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

// land ends the flight of a lane. The sessions in again wait once more.
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

// takeLeaving returns a lane's next news for Redis of sessions gone.
func (r *renewer) takeLeaving(l *lane) []leaving {
	r.mu.Lock()
	defer r.mu.Unlock()
	batch := l.leaving[:min(len(l.leaving), batchSize)]
	if l.leaving = l.leaving[len(batch):]; len(l.leaving) == 0 {
		l.leaving = nil
	}
	return batch
}

// heard notes whether each of the slots has answered, and moves waiting sessions to their new
// lane. It reports whether any slot was silent before, and whether any is now.
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

// deal sorts all waiting sessions into their lanes. r.mu must be held.
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

// batches returns the number of batches waiting in a lane.
func (r *renewer) batches(l *lane) int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return max((len(l.waiting)+renewBatch-1)/renewBatch, (len(l.leaving)+batchSize-1)/batchSize)
}

// unsent returns how many sessions have left without Redis being told.
func (r *renewer) unsent() (count int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for i := range r.lanes {
		count += len(r.lanes[i].leaving)
	}
	return count
}

// outlived returns the sessions with a lease asked for at limit or before.
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
