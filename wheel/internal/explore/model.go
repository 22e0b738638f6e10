package explore

import "time"

// The model is what the wheel promises, in the simplest way to say it: a call happens in one
// piece, at some moment between its begin and its end. The hand's pass has a piece for each
// timer: if it is pending and over, it is handed over. All has a piece for each timer, too.
//
// A touch reads the published tick, at any moment since the call began, and stores it later. So
// the tick of a touch is the model's to choose, though it is never behind the tick of an
// earlier touch. Until the touch has stored it, the hand may file the timer for a touch of a
// later tick. So the model hands such a timer over by the one tick or by the other.
//
// How late a tick was left is the wheel's to say. But the promise is checked without ticks.
type model struct {
	tick    uint64
	timer   [2]modelTimer
	backlog [2]int8
	queued  int
	lag     *lags
	sleep   time.Duration // how much later than a tick the hand may wake
}

// lags are how late each tick was left.
type lags [base + 20]time.Duration

type modelTimer struct {
	state          State
	rearmed, seen  bool
	touched, until uint64 // ticks
	stored         uint64 // tick published when the last touch was stored
	delay          uint64 // in ticks

	visited uint64 // tick of the hand's last visit
	held    bool   // the next visit may be on the same tick

	// The promise, without ticks: an instant at or before the last touch, and the bounds of a
	// rearmed timer's deadline.
	heard, deadline, latest time.Duration
}

func ticks(d time.Duration) uint64 { return uint64((d + tick - 1) / tick) }

func (t *modelTimer) running() bool { return t.state == Pending || t.state == Due }

// due returns the tick on which a pending timer is due.
func (t *modelTimer) due() uint64 {
	if t.rearmed {
		return t.until
	}
	return t.touched + t.delay + 1
}

// promised returns the first instant at which the timer may be handed over.
func (t *modelTimer) promised() time.Duration {
	if t.rearmed {
		return t.deadline
	}
	return t.heard + time.Duration(t.delay)*tick
}

// overAt returns the first instant at which the hand may hand over a pending timer, and the
// first instant at which it must.
func (m *model) overAt(t *modelTimer) (may, must time.Duration) {
	if t.rearmed {
		at := time.Duration(t.until) * tick
		return at, at
	}
	return m.overAfter(t.touched, t.delay), m.overAfter(t.stored, t.delay)
}

// overAfter returns the instant at which a timer is due after a touch on a tick. It is the delay
// and a tick more, since the touch may have come at the very end of its tick. If the hand was
// late in leaving the tick, it is as much later.
func (m *model) overAfter(touched, delay uint64) time.Duration {
	return time.Duration(touched+delay+1)*tick + m.lag[touched]
}

// touch makes a touch on a tick. It reports false if it would be behind another touch.
func (m *model) touch(i int, on uint64, at time.Duration) bool {
	t := &m.timer[i]
	if on < t.touched {
		return false
	}
	m.keep(i)
	t.touched, t.stored, t.heard, t.rearmed, t.seen = on, m.tick, at, false, false
	return true
}

// keep makes a due timer pending.
func (m *model) keep(i int) {
	m.forget(i)
	if t := &m.timer[i]; t.state != Pending {
		t.state, t.held = Pending, false
	}
}

// forget takes a timer out of the backlog.
func (m *model) forget(i int) {
	if m.queued > 0 && m.backlog[0] == int8(i) {
		m.backlog[0] = m.backlog[1]
		m.queued--
	} else if m.queued > 1 && m.backlog[1] == int8(i) {
		m.queued--
	}
}

// handOver makes a pending timer due.
func (m *model) handOver(i int) {
	m.timer[i].state = Due
	m.backlog[m.queued] = int8(i)
	m.queued++
}

// visit is a timer's part of the hand's pass, by an instant. The hand leaves the timer alone, or
// hands it over. visit reports false if the hand must not.
func (m *model) visit(i int, pass time.Duration, leave bool) bool {
	t, on := &m.timer[i], uint64(pass/tick)
	again := t.visited == on
	t.visited = on
	if t.state != Pending || again && !t.held {
		return !leave
	}
	may, must := m.overAt(t)
	t.held = t.due() <= on
	switch {
	case pass < may:
		return !leave
	case leave:
		return pass < must
	}
	m.handOver(i)
	return pass >= t.promised()
}

// parts returns the number of pieces in which a call happens.
func (c *call) parts() int {
	if c.op == advance || c.op == rest || c.op == seeAll {
		return 2
	}
	return 1
}

// variants returns in how many ways a part of a call can happen now. They differ in the instants
// that the call takes for now, any since its begin, and in the choice of a visit.
func (m *model) variants(c *call) (n int) {
	switch c.op {
	case touch, moveKey, start, touchAtPast, touchAtNow:
		return int(m.tick-c.tick) + 1
	case moveShort, moveLong:
		return c.untils() * (int(m.tick-c.tick) + 1)
	case advance, rest:
		return 2
	default:
		return 1
	}
}

// untils returns how many deadlines a call of Move can set, since it can read the clock at any
// moment.
func (c *call) untils() int {
	d := length[c.op]
	return int(ticks(c.over+d)-ticks(c.began+d)) + 1
}

// apply makes a part of a call happen, in one of its variants. It reports false if the part is
// not possible, or has another answer.
func (m *model) apply(c *call, part, variant int) bool {
	a, d := c.answer, length[c.op]
	switch c.op {
	case publish:
		forward := c.tick > m.tick
		m.tick = c.tick
		return forward
	case pause:
		return true
	case now:
		return a.at == time.Duration(m.tick)*tick
	case seeAll:
		return a.seen[part] == 1 && m.timer[part].running() || a.seen[part] == 0 && !m.timer[part].running()
	case advance, rest:
		return m.visit(part, c.pass, variant == 1)
	case takeUp:
		return m.takeUp(a)
	}
	t := &m.timer[c.timer]
	switch c.op {
	case expire, rearmPast, rearmLater, touchAtPast, touchAtNow:
		if a.ok != (t.state == Due) {
			return false
		}
	case expireSeen, rearmSeen:
		if a.ok != (t.state == Due && t.seen) {
			return false
		}
	case handOver:
		if a.ok != (t.state == Pending) {
			return false
		}
	case handOverIdle: // between the two, the wheel does not know when exactly the last touch came
		if a.ok && (t.state != Pending || t.heard > d) || !a.ok && t.state == Pending && m.overAfter(t.touched, 0) <= d {
			return false
		}
	case start:
		if a.ok != (t.state == Unstarted) {
			return false
		}
	case look, touched:
		return m.look(c)
	default:
		if a.ok != t.running() {
			return false
		}
	}
	if !a.ok {
		return a.timer == 0
	}
	on := c.tick + uint64(variant)
	switch c.op {
	case touch, moveKey:
		return m.touch(c.timer, on, c.began)
	case moveShort, moveLong:
		ok := m.touch(c.timer, c.tick+uint64(variant/c.untils()), c.began)
		until := ticks(c.began+d) + uint64(variant%c.untils())
		t.rearmed, t.until, t.deadline, t.latest = true, until, c.began+d, c.over+d
		return ok
	case delayShort, delayLong:
		t.delay = ticks(d)
	case remove, expire, expireSeen:
		m.forget(c.timer)
		t.state = Expired
		if c.op == remove {
			t.state = Removed
		}
		return a.timer == c.timer
	case rearmPast, rearmLater, rearmSeen:
		m.keep(c.timer)
		t.rearmed, t.until, t.deadline, t.latest = true, ticks(d), d, d
	case touchAtPast, touchAtNow:
		at := min(uint64(d/tick), on)
		if end := time.Duration(t.touched+1)*tick + m.lag[t.touched]; t.touched < on && end > d {
			at = t.touched // the touch before may have come later
		}
		return m.touch(c.timer, max(t.touched, at), max(t.heard, min(d, c.began)))
	case handOver, handOverIdle:
		m.handOver(c.timer)
	case value:
		return a.timer == c.timer
	case start:
		t.delay = ticks(d)
		return m.touch(c.timer, on, c.began)
	}
	return true
}

func (m *model) takeUp(a answer) bool {
	if m.queued == 0 || !a.ok {
		return a.ok == (m.queued > 0)
	}
	i := int(m.backlog[0])
	m.forget(i)
	return a.timer == i
}

func (m *model) look(c *call) bool {
	a, t := c.answer, &m.timer[c.timer]
	switch {
	case t.state == Unstarted, c.op == look && !t.running():
		return a == answer{}
	case !t.running(): // it still knows its last touch
		return !a.ok && a.at >= t.heard && a.at <= c.over
	}
	quiet := t.rearmed || t.seen
	if c.op == look {
		t.seen = true
		if a.isDue != (t.state == Due) || a.from != time.Duration(t.touched)*tick || a.dueAt != time.Duration(t.due())*tick {
			return false
		}
	}
	return a.ok == quiet && a.at >= t.heard && a.at <= c.over
}
