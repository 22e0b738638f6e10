package rules_test

import (
	"time"

	"github.com/heartwheel-go/heartwheel/keepalive/internal/rules"
)

// A model is a connection as docs/policies.md describes it: what has happened to it, and when.
// From the past it finds what has to happen now. It shares no code with package rules, and is as
// naive as can be: it knows no states, and no deadlines ahead.
type model struct {
	now   rules.Time
	looks bool // by the policy in force, since the update

	lookBy rules.Time // when the update has to be seen

	// What the peer and the program did.
	touched  rules.Time // last touch, or sign of life found in the socket
	spoke    bool       // there was life
	received rules.Time
	sent     rules.Time
	acked    rules.Time
	signs    int // of life
	arrived  int
	taken    int
	unread   bool // with arrivals: some were unread when the socket was last asked
	beats    int
	holds    int
	released rules.Time
	own      time.Duration

	// What was done about the present silence.
	silence silence

	// What was done about the rest.
	first      time.Duration // FirstMessage when the connection was opened
	pardoned   [2]rules.Time // ReadIdle, WriteIdle: closed in a dry run, or ignored, then
	extended   rules.Time    // ReadIdle and WriteIdle wait until then
	ageFrom    rules.Time
	hasAge     bool
	told       rules.Time
	hasTold    bool
	ageOver    bool // in a dry run
	doomed     rules.Reason
	rescue     rules.Reason // bytes within this limit end that
	drained    bool
	shed       bool // it is to leave, once the user is told, and after the grace
	evicted    bool
	waits      bool       // bytes wait for the peer
	stuck      rules.Time // since then, and it has taken none
	stallSpent bool       // and that was counted in a dry run
	checkAt    rules.Time // when the user's check comes
	retry      rules.Time // a doomed connection tries again to be closed, at the latest
	isTrial    bool       // this visit: it tells of what has to be done by now
	denied     bool       // this visit: the rate allows no close
	window     window
	ended      bool
	talked     bool // this visit: the connection was touched, so its silence is over
	probeLost  bool // this visit
}

type silence struct {
	stage    stage
	why      rules.Reason
	at       rules.Time // when the stage began
	until    rules.Time // and when it ends
	probes   int
	final    bool
	slow     bool // more time, because the program is slow
	slowTill rules.Time
	rounds   int
	signs    int // at the last look
	taken    int
	full     bool // at the last look, the peer could send no more
}

type stage int

const (
	listening stage = iota
	probed
	extended
	leaving
	ignored
)

type window struct {
	on          bool
	began, next rules.Time
	beats       int
	arrived     int
	strikes     [2]int
}

func (w *world) newModel() model {
	m := model{now: born, looks: true, touched: born, received: born, sent: born, ageFrom: born}
	p := &w.policies[0]
	m.first, m.checkAt = p.First, born.Add(every)
	m.spoke = p.First == 0
	m.hasAge = p.MaxAge > 0
	if p.MinBeat > 0 || p.MinBytes > 0 {
		m.window = window{on: true, began: born, next: born.Add(10 * time.Second)}
	}
	return m
}

// isFull reports whether the peer can send no more.
func (m *model) isFull() bool { return m.arrived-m.taken == 2 }

// live is a sign of life at an instant: a new silence begins.
func (m *model) live(when rules.Time) {
	m.touched = max(m.touched, when)
	m.silence = silence{}
	m.spoke = true
}

// updated is the first visit after an update.
func (m *model) update(p *rules.Policy) {
	switch {
	case m.shed: // at any age
	case p.MaxAge == 0:
		m.hasAge, m.hasTold = false, false
	case !m.hasAge:
		m.hasAge, m.ageFrom = true, m.now
	case m.now < m.ageFrom.Add(age(p)):
		m.hasTold = false
	}
	m.ageOver = false
	switch on := p.MinBeat > 0 || p.MinBytes > 0; {
	case !on:
		m.window = window{}
	case !m.window.on: // what arrived before is unknown: the first window begins now
		m.window = window{on: true, began: m.now, next: m.now.Add(10 * time.Second), beats: m.beats, arrived: m.arrived}
	}
	m.pardoned, m.extended, m.stallSpent = [2]rules.Time{}, 0, false
	q := &m.silence
	if q.stage == ignored || q.stage == leaving && p.DryRun {
		*q = silence{}
		m.spoke = true
	}
	if (q.stage == probed || q.stage == leaving && q.why == rules.NoAnswer) && !q.final && p.ProbeCount == 0 {
		*q = silence{rounds: q.rounds, signs: q.signs, taken: q.taken, full: q.full}
	}
	if q.stage == leaving { // the rate may be another one
		q.until = m.now
	}
	m.retry = m.now
	if p.DryRun && !m.drained {
		m.doomed = 0
	}
}

func age(p *rules.Policy) time.Duration {
	return p.MaxAge - time.Duration(float64(p.MaxAge)*p.MaxDraw*draw)
}

// visit does whatever is due now. It was due at an instant: the program may be late.
func (m *model) visit(w *world, policy int, mood mood, dueAt rules.Time) (done []move) {
	p := &w.policies[policy]
	if !m.looks {
		m.looks, m.lookBy = true, 0
		m.update(p)
	}
	m.talked, m.probeLost, m.denied = false, false, false
	v := modelVisit{model: m, w: w, p: p, mood: mood, dueAt: dueAt}
	for range 50 {
		if v.once() {
			break
		}
	}
	m.denied = false
	m.evicted = false
	return v.done
}

type modelVisit struct {
	*model
	w    *world
	p    *rules.Policy
	mood mood

	dueAt rules.Time
	done  []move
}

// isLate reports whether the program seems to be too busy to decide in time.
func (v *modelVisit) isLate() bool { return v.now.Sub(v.dueAt) > 5*tick }

func (v *modelVisit) note(do rules.Action, why rules.Reason) { v.done = append(v.done, move{do, why}) }

// once does one thing. It reports whether nothing is left to do.
func (v *modelVisit) once() (over bool) {
	m, p := v.model, v.p
	// What ends a connection whatever its peer says.
	if m.doomed != 0 && !m.denied && (m.drained || !m.isTrial || m.now >= m.retry) {
		if m.rescue == rules.WriteStall && !m.drained && !v.isStuck() {
			m.doomed = 0
		} else if i := int(m.rescue) - int(rules.ReadIdle); !m.drained && 0 <= i && i < 2 && !v.isIdle(i) {
			m.doomed = 0
			m.pardoned[i] = 0
		} else if m.drained || v.allowed(m.doomed) {
			return v.close(m.doomed)
		}
	}
	if m.shed && m.doomed == 0 {
		if !m.hasTold {
			m.hasTold, m.told = true, m.now
			v.note(rules.Tell, rules.Shed)
		}
		if m.now >= m.told.Add(p.MaxGrace) {
			return v.close(rules.Shed)
		}
	}
	if m.doomed == 0 {
		if over, acted := v.others(); acted {
			return over
		}
	}
	if m.evicted {
		m.evicted = false
		switch heard := v.heardAt(); {
		case m.holds > 0:
			v.liveNow(m.now)
			return true
		case v.w.life != rules.Touches && heard >= 0 && heard.Add(p.EvictIdle) > m.now:
			v.liveNow(heard)
			return true
		case m.arrived > m.taken:
		case p.DryRun:
			v.note(would, rules.Evicted)
		default:
			return v.close(rules.Evicted)
		}
	}
	return v.silent()
}

func (v *modelVisit) liveNow(when rules.Time) {
	v.live(when)
	patience, _ := v.patience() // if that has passed since then, the silence is over now
	v.touched = max(v.touched, v.now.Add(-patience))
}

func (v *modelVisit) close(why rules.Reason) bool {
	v.note(rules.Close, why)
	v.ended = true
	return true
}

// doom ends a connection when the rate allows it, unless it is rescued: bytes came within a limit.
func (v *modelVisit) doom(why, limit rules.Reason) (over, acted bool) {
	switch {
	case v.p.DryRun:
		v.note(would, why)
		return false, true
	case v.shed: // it leaves anyway
	case !v.allowed(why):
		v.doomed, v.rescue = why, limit
		return false, true
	}
	return v.close(why), true
}

// allowed reports whether the rate allows to close a connection. Otherwise the connection tries again later.
func (v *modelVisit) allowed(why rules.Reason) bool {
	if !v.p.Paced {
		return true
	}
	if !v.denied {
		v.note(reserves, why)
		v.denied = !v.mood.free
		v.retry = v.now.Add(retry)
	}
	return !v.denied
}

// others looks at ages, rates, and at nothing read or written.
func (v *modelVisit) others() (over, acted bool) {
	m, p := v.model, v.p
	if m.hasAge && !m.ageOver {
		old := !m.hasTold && m.now >= m.ageFrom.Add(age(p))
		if old && !p.DryRun {
			m.hasTold, m.told = true, m.now
			v.note(rules.Tell, rules.MaxAge)
		}
		if old && p.DryRun || m.hasTold && m.now >= m.told.Add(p.MaxGrace) {
			m.ageOver = true
			return v.doom(rules.MaxAge, 0)
		}
	}
	if m.window.on && m.now >= m.window.next {
		if why := v.judge(); why != 0 {
			return v.doom(why, 0)
		}
	}
	if v.isStuck() && !m.stallSpent {
		m.stallSpent = p.DryRun
		return v.doom(rules.WriteStall, rules.WriteStall)
	}
	if v.w.checks && m.now >= m.checkAt {
		v.note(rules.Inspect, 0)
		if m.checkAt = m.now.Add(every); v.mood.wants {
			return v.doom(rules.Check, 0)
		}
		return false, true
	}
	for i, limit := range []time.Duration{p.ReadIdle, p.WriteIdle} {
		why := rules.ReadIdle + rules.Reason(i)
		if limit == 0 || !v.isIdle(i) || m.now < m.extended || m.pardoned[i] > v.last(i) {
			continue
		}
		if unread := m.arrived > m.taken; i == 0 && (unread && (m.isFull() || m.now < m.received.Add(4*limit)) ||
			!unread && m.arrived > 0 && v.isLate() && m.touched > v.dueAt && m.received > m.released) {
			m.released = m.now // the program is slow to read, or was
			continue
		}
		if p.Asks {
			v.note(rules.Ask, why)
			if v.mood.talks {
				v.touchedByUser()
			}
			switch verdict := v.mood.verdict; {
			case verdict == rules.Pardon:
				m.pardoned[i] = m.now
				return false, true
			case verdict > 0:
				m.extended = m.now.Add(time.Duration(verdict))
				return false, true
			case verdict == rules.ProbeIt && p.ProbeCount > 0 && m.probeLost:
				m.extended = m.now.Add(v.period())
				return false, true
			case verdict == rules.ProbeIt && p.ProbeCount > 0:
				v.note(rules.Probe, why)
				m.sent = m.now
				if v.mood.fails {
					m.probeLost = true
					m.pardoned[i] = m.now
					if i == 1 { // some of it may have been written
						return v.doom(rules.NoAnswer, 0)
					}
					return v.doom(rules.NoAnswer, why)
				}
				m.extended = m.now.Add(v.period())
				if !m.talked && !m.silence.final {
					v.probe(true)
					m.silence.signs, m.silence.taken, m.silence.full = m.signs, m.taken, m.isFull()
				}
				return false, true
			}
		}
		m.pardoned[i] = m.now
		return v.doom(why, why)
	}
	return false, false
}

// period is how often the Keeper looks at nothing read and nothing written.
func (v *modelVisit) period() time.Duration {
	r, w := v.p.ReadIdle, v.p.WriteIdle
	if r == 0 || w > 0 && w < r {
		return w
	}
	return r
}

// last is when bytes were last read, or written.
func (v *modelVisit) last(i int) rules.Time {
	if i == 0 {
		return max(v.received, v.released)
	}
	return max(v.sent, v.released)
}

func (v *modelVisit) isIdle(i int) bool {
	limit := []time.Duration{v.p.ReadIdle, v.p.WriteIdle}[i]
	return limit > 0 && v.holds == 0 && v.now >= v.last(i).Add(limit)
}

// isStuck reports whether the peer has taken none of the bytes that wait, for too long.
func (v *modelVisit) isStuck() bool {
	return v.p.WriteStall > 0 && v.waits && v.now >= v.stuck.Add(v.p.WriteStall)
}

// judge judges a window at its end.
func (v *modelVisit) judge() rules.Reason {
	m, p, q := v.model, v.p, &v.window
	elapsed := m.now.Sub(q.began)
	beats, bytes := m.beats-q.beats, m.arrived-q.arrived
	many := p.MinBeat > 0 && beats > int(elapsed/p.MinBeat)+1
	slow := p.MinBytes > 0 && bytes > 0 && m.arrived == m.taken && float64(bytes) < float64(p.MinBytes)*elapsed.Seconds()
	for i, guilty := range []bool{many, slow} {
		if q.strikes[i]++; !guilty {
			q.strikes[i] = 0
		}
	}
	q.next = m.now.Add(10 * time.Second)
	if m.arrived == m.taken {
		q.began, q.beats, q.arrived = m.now, m.beats, m.arrived
	}
	for i, strikes := range q.strikes {
		if strikes >= p.Strikes {
			q.strikes[i] = 0
			return rules.TooMany + rules.Reason(i)
		}
	}
	return 0
}

// timeout is how long the peer may be silent without pressure.
func (v *modelVisit) timeout() time.Duration {
	if v.own > 0 {
		return v.own
	}
	return v.p.Timeout
}

// stretched is a duration of the config for a connection with a timeout of its own.
func (v *modelVisit) stretched(d time.Duration) time.Duration {
	return time.Duration(float64(d) * float64(v.timeout()) / float64(v.p.Timeout))
}

// early is how much sooner than Probe.After the connection is probed.
func (v *modelVisit) early() time.Duration {
	return time.Duration(float64(v.stretched(v.p.ProbeAfter)) / 4 * draw)
}

// pressed is how long the peer may be silent until it is closed, without probes.
func (v *modelVisit) pressed() time.Duration {
	if v.mood.pressure && v.p.Pressed > 0 {
		return v.stretched(v.p.Pressed)
	}
	return v.timeout()
}

// patience is how long the peer may be silent until something happens, and why.
func (v *modelVisit) patience() (time.Duration, rules.Reason) {
	d := v.timeout()
	if !v.spoke && v.silence.stage == listening {
		if v.p.First > 0 {
			d = v.p.First
		}
		return d, rules.FirstMessage
	}
	d = v.pressed()
	if after := v.stretched(v.p.ProbeAfter) - v.early(); v.p.ProbeCount > 0 && after < d {
		return after, rules.NoAnswer
	}
	return d, rules.Idle
}

// due is when something happens about the silence.
func (v *modelVisit) due() (rules.Time, rules.Reason) {
	q := v.silence
	patience, why := v.patience()
	if q.stage != listening {
		why = q.why
	}
	switch {
	case q.slow:
		return q.slowTill, why
	case q.stage != listening:
		return q.until, why
	}
	if !v.spoke {
		return born.Add(v.first), why // as it was when the connection came
	}
	return v.touched.Add(patience), why
}

// heardAt is when the socket last heard of the peer, or -1.
func (v *modelVisit) heardAt() rules.Time {
	heard := rules.Time(-1)
	if v.arrived > 0 {
		heard = v.received
	}
	if v.w.life == rules.Arrivals && v.arrived > 0 {
		heard = min(v.received.Add(behind), v.now)
	}
	if v.w.life == rules.ReadsWrite && v.acked > 0 {
		heard = max(heard, v.acked)
	}
	return heard
}

func (v *modelVisit) touchedByUser() {
	v.live(v.now)
	v.talked = true
}

// silent looks at the silence.
func (v *modelVisit) silent() (over bool) {
	m, p, q := v.model, v.p, &v.silence
	if v.talked {
		return true
	}
	due, why := v.due()
	kernel, acks := v.w.life == rules.Arrivals, v.w.life == rules.ReadsWrite
	answer := kernel && q.stage == probed || (kernel || acks) && (q.stage == extended || q.stage == listening && !m.spoke)
	if m.now < due && !answer || m.holds > 0 {
		return true
	}
	if v.isAlive(due) || m.now < due {
		return true
	}
	if patience, _ := v.patience(); q.stage == listening && m.spoke && q.slow && m.touched.Add(patience) > m.now {
		q.slow = false // the timeout has become longer
		return true
	}
	gone := q.why == rules.NoAnswer && p.ProbeCount == 0 && !q.final
	if (q.stage == leaving || q.stage == extended) && (q.why == rules.Idle || gone) && m.touched.Add(v.pressed()) > m.now {
		*q = silence{rounds: q.rounds, signs: q.signs, taken: q.taken, full: q.full}
		return true
	}
	switch {
	case q.stage == ignored:
		q.at, q.until = m.now, m.now.Add(v.timeout())
		return true
	case q.stage == leaving:
		return v.end(q.why)
	case !m.probeLost && (q.stage == probed && !q.final && q.probes < p.ProbeCount || q.stage == listening && why == rules.NoAnswer):
		v.note(rules.Probe, 0)
		m.sent = m.now
		if m.probeLost = v.mood.fails; m.probeLost {
			return false
		}
		v.probe(false)
		return true
	case p.Asks && (q.stage != probed || !q.final):
		v.note(rules.Ask, why)
		if v.mood.talks {
			v.touchedByUser()
			return true
		}
		switch verdict := v.mood.verdict; {
		case verdict == rules.Pardon:
			v.ignore(why)
			return true
		case verdict > 0:
			v.enter(silence{stage: extended, why: why, until: m.now.Add(time.Duration(verdict))})
			return true
		case verdict == rules.ProbeIt && p.ProbeCount > 0:
			if !m.probeLost {
				v.note(rules.Probe, 0)
				m.sent = m.now
			}
			if !v.mood.fails {
				v.probe(true)
				return true
			}
			why = rules.NoAnswer
		}
	}
	return v.end(why)
}

// end ends a silence after its last deadline.
func (v *modelVisit) end(why rules.Reason) bool {
	if v.p.DryRun {
		v.note(would, why)
		v.ignore(why)
		return true
	}
	if !v.allowed(why) {
		v.enter(silence{stage: leaving, why: why, until: v.retry})
		return true
	}
	return v.close(why)
}

func (v *modelVisit) ignore(why rules.Reason) {
	v.enter(silence{stage: ignored, why: why, until: v.now.Add(v.timeout())})
}

func (v *modelVisit) enter(next silence) {
	q := v.silence
	if next.stage == leaving || next.stage == ignored {
		next.final = q.final
	}
	next.at, next.rounds, next.signs, next.taken, next.full = v.now, q.rounds, q.signs, q.taken, q.full
	v.silence = next
}

// probe notes a probe.
func (v *modelVisit) probe(final bool) {
	q := v.silence
	answer := v.stretched(v.p.ProbeTimeout)
	number := q.probes + 1
	begun := v.touched.Add(v.stretched(v.p.ProbeAfter) - v.early())
	if q.stage == probed {
		begun = q.until
		if q.slow {
			begun = q.slowTill
		}
	}
	if final {
		begun = v.now
	}
	next := silence{stage: probed, why: rules.NoAnswer, probes: number, final: final}
	next.until = max(begun.Add(answer), v.now.Add(answer-tick))
	if number == v.p.ProbeCount && !final {
		next.until = next.until.Add(v.early())
	}
	v.enter(next)
}

// isAlive looks into the socket. It reports whether the peer lives, or may live.
func (v *modelVisit) isAlive(due rules.Time) bool {
	m, q := v.model, &v.silence
	patience, _ := v.patience()
	heard := v.heardAt()
	signs, taken, heldUp := q.signs, q.taken, q.full || m.isFull()
	q.signs, q.taken, q.full = m.signs, m.taken, m.isFull()
	manual, kernel := v.w.life == rules.Touches, v.w.life == rules.Arrivals
	unread := m.arrived > m.taken
	fresh := m.received > m.touched.Add(tick) && m.received.Add(patience) > m.now
	came := m.received
	if m.unread { // they were the last touch, and were read after it
		came = heard.Add(heard.Sub(came))
	}
	busy := v.isLate() && m.now.Sub(due) > 5*tick && m.arrived > 0 && came.Add(2*tick) > m.touched && q.stage != ignored
	m.unread = kernel && unread
	grace := func(till rules.Time) bool {
		q.slow, q.slowTill = true, till
		return true
	}
	alive := m.signs != signs // since the last look
	if q.stage == listening {
		alive = heard.Add(patience) > m.now
		if !m.spoke {
			alive = m.signs > 0
		}
	}
	switch {
	case heard >= 0 && alive && !manual:
		v.liveNow(heard)
		return true
	case q.stage == extended && m.now < due:
		return false
	case kernel && !unread && (q.slow || busy):
		v.liveNow(m.now) // the program was slow, and has read it all: the peer waits for an answer
		return true
	case heldUp && m.now >= due && q.stage != ignored && !manual:
		q.rounds = 0
		return grace(m.now.Add(patience))
	case heldUp && m.now >= due && q.stage != ignored && (!q.slow || m.isFull() && m.taken == taken):
		return grace(m.now.Add(patience)) // nobody reads
	case heldUp && m.now >= due && q.stage != ignored && q.rounds < 3:
		q.rounds++
		return grace(m.now.Add(patience)) // somebody reads, and nobody touches
	case manual && unread && fresh && q.slow && m.taken == taken:
		return grace(m.received.Add(patience)) // nobody reads
	case !manual && unread && m.taken != taken && (q.slow || kernel):
		q.rounds = 0
		return grace(m.now.Add(patience)) // somebody reads, slowly
	case m.now >= due && (unread || manual && fresh) && q.rounds < 3:
		q.rounds++
		return grace(m.now.Add(max(2*tick, m.now.Sub(due))))
	}
	return false
}
