package explore

import (
	"fmt"
	"math/bits"
	"strings"
	"time"
)

// later is how long the hand goes on after the calls: longer than any deadline.
const later = 14 * tick

// ending is what is found after all calls.
type ending struct {
	state   [2]State
	backlog [2]int8 // in the order of being taken up
	queued  int
	tick    uint64           // of the hand after the calls
	due     [2]time.Duration // when pending timers have become due
}

// end looks at the wheel after the calls, and then lets the hand go on. The error is about
// a fault beyond any order of the calls.
func (w *world) end() (e ending, err error) {
	if err := w.wheel.Check(); err != nil {
		return e, err
	}
	e.tick = w.wheel.Tick()
	for i := range e.state {
		e.state[i] = w.wheel.State(i)
	}
	for {
		i, ok := w.wheel.TakeUp()
		if !ok {
			break
		}
		e.backlog[e.queued] = int8(i)
		e.queued++
	}
	for i, state := range e.state {
		if v, ok := w.wheel.Timer(i).Expire(); ok != (state == Due) || ok && v != i {
			return e, fmt.Errorf("a timer is %v, and Expire answers %d, %v", state, v, ok)
		}
	}
	if err := w.settle(later, func() error { return w.expireDue(&e) }); err != nil {
		return e, err
	}
	return e, w.wheel.Check()
}

// expireDue notes which timers have become due, and expires them.
func (w *world) expireDue(e *ending) error {
	for {
		i, ok := w.wheel.TakeUp()
		if !ok {
			return nil
		}
		if e.due[i] > 0 {
			return fmt.Errorf("timer %c is due a second time", 'A'+i)
		}
		e.due[i] = w.now
		if v, ok := w.wheel.Timer(i).Expire(); !ok || v != i {
			return fmt.Errorf("a timer is due, and Expire answers %d, %v", v, ok)
		}
	}
}

// explains reports whether the model has this ending, too. last is when the last call ended.
func (m *model) explains(e *ending, last time.Duration) bool {
	if m.tick != e.tick || m.queued != e.queued || m.queued > 0 && m.backlog[0] != e.backlog[0] {
		return false
	}
	for i := range m.timer {
		t := &m.timer[i]
		if t.state != e.state[i] {
			return false
		}
		if t.state != Pending && e.due[i] != 0 || t.state == Pending && !m.explainsDue(t, e.due[i], last) {
			return false
		}
	}
	return true
}

// explainsDue reports whether a pending timer can have become due at that instant, if nobody
// has done anything after the last call.
func (m *model) explainsDue(t *modelTimer, at, last time.Duration) bool {
	may, must := m.overAt(t)
	soonest, visit := last, max(last, time.Duration(t.visited+1)*tick)
	if !t.held {
		soonest = visit
	}
	latest := t.latest
	if !t.rearmed {
		latest = last + time.Duration(t.delay)*tick // no touch is later than the last call
	}
	return at >= max(may, soonest, t.promised()) && at <= max(must, visit) && at <= max(visit, latest+2*tick+m.sleep)
}

// history looks for an order of the calls. Each call happens in one piece, between its begin and
// its end, and the model gives the same answers and comes to the same end.
type history struct {
	calls  []call
	ending ending
	last   time.Duration
}

// isLinear reports whether there is such an order.
func (h *history) isLinear(from model) bool {
	var left uint64 // four bits for each call: the parts yet to happen
	for i := range h.calls {
		left |= (1<<h.calls[i].parts() - 1) << (4 * i)
	}
	return h.search(left, from)
}

// search looks for an order of the parts left.
func (h *history) search(left uint64, m model) bool {
	if left == 0 {
		return m.explains(&h.ending, h.last)
	}
	firstEnd := h.calls[bits.TrailingZeros64(left)/4].end
	for rest := left; rest != 0; rest &= rest - 1 {
		firstEnd = min(firstEnd, h.calls[bits.TrailingZeros64(rest)/4].end)
	}
	for rest := left; rest != 0; rest &= rest - 1 {
		bit := bits.TrailingZeros64(rest)
		c, part := &h.calls[bit/4], bit%4
		if c.begin > firstEnd {
			continue // another call ended before
		}
		for variant := range m.variants(c) {
			next := m
			if next.apply(c, part, variant) && h.search(left&^(1<<bit), next) {
				return true
			}
		}
	}
	return false
}

func (h *history) String() string {
	var b strings.Builder
	for _, c := range h.calls {
		fmt.Fprintf(&b, "%d to %d: %v = %v\n", c.begin, c.end, c.step, c.answer)
	}
	fmt.Fprintf(&b, "in the end, on tick %d: %v, backlog %v, due at %v\n",
		h.ending.tick, h.ending.state, h.ending.backlog[:h.ending.queued], h.ending.due)
	return b.String()
}
