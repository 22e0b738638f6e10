package rules_test

import (
	"cmp"

	"github.com/heartwheel-go/heartwheel/keepalive/internal/rules"
)

// draw is what each connection has drawn.
const draw = 0.5

// A feature is a part of a policy, and the events of interest for it.
type feature struct {
	name   string
	set    func(p *rules.Policy)
	events []event
}

var features = []feature{
	{"first", func(p *rules.Policy) { p.First = 5 * tick }, nil},
	{"probes", func(p *rules.Policy) { p.ProbeAfter, p.ProbeTimeout, p.ProbeCount = 8*tick, 4*tick, 2 }, []event{fails}},
	{"readidle", func(p *rules.Policy) { p.ReadIdle = 6 * tick }, []event{read}},
	{"writeidle", func(p *rules.Policy) { p.WriteIdle = 7 * tick }, []event{write}},
	{"stall", func(p *rules.Policy) { p.WriteStall = 9 * tick }, []event{stick, takeSome, takeAll}},
	{"age", func(p *rules.Policy) { p.MaxAge, p.MaxDraw, p.MaxGrace = 20*tick, 0.2, 3*tick }, nil},
	{"grace", func(p *rules.Policy) { p.MaxAge, p.MaxGrace = 12*tick, 3*tick }, nil},
	{"beats", func(p *rules.Policy) { p.MinBeat, p.Strikes = 10*tick, 1 }, nil},
	{"bytes", func(p *rules.Policy) { p.MinBytes, p.Strikes = 1, 1 }, []event{read}},
	{"hold", func(*rules.Policy) {}, []event{hold, release}},
	{"evict", func(p *rules.Policy) { p.EvictIdle = 5 * tick }, []event{evict}},
	{"pressure", func(p *rules.Policy) { p.Pressed = 4 * tick }, []event{press}},
	{"pace", func(p *rules.Policy) { p.Paced = true }, []event{allow}},
	{"asks", func(p *rules.Policy) { p.Asks = true }, []event{extend, pardon, probeIt, condemn, talk, talkProbe}},
	{"checks", func(*rules.Policy) {}, []event{want}},
	{"dry", func(p *rules.Policy) { p.DryRun = true }, nil},
	{"own", func(*rules.Policy) {}, []event{own}},
	{"slow", func(*rules.Policy) {}, []event{arrive, read}},
	{"drain", func(*rules.Policy) {}, []event{drain}},
	{"shed", func(*rules.Policy) {}, []event{shed}},
}

// An event happens to a connection.
type event struct {
	name string
	do   func(w *world, s *shell, m *model) bool // false if it can't happen now
}

var (
	touch = event{"touched", func(w *world, s *shell, m *model) bool {
		if w.policies[0].MinBeat > 0 || w.policies[1].MinBeat > 0 {
			s.beats++
			m.beats++
		}
		s.touch()
		m.live(m.now)
		return true
	}}
	arrive = event{"arrived", func(_ *world, s *shell, m *model) bool {
		if s.socket.Unread == 2 {
			return false
		}
		k := &s.socket
		k.Arrived++
		k.Signs++
		k.Unread++
		k.Full = k.Unread == 2
		k.Received, k.Heard = s.now, s.now
		m.arrived++
		m.signs++
		m.received = m.now
		return true
	}}
	read = event{"read", func(w *world, s *shell, m *model) bool {
		k := &s.socket
		if k.Unread == 0 {
			arrive.do(w, s, m)
		}
		k.Taken, k.Unread, k.Full = k.Arrived, 0, false
		m.taken = m.arrived
		if w.life == rules.Reads || w.life == rules.ReadsWrite {
			s.touch()
			m.live(m.now)
		}
		return true
	}}
	write = event{"written", func(w *world, s *shell, m *model) bool {
		s.socket.Sent = s.now
		m.sent = m.now
		if w.life == rules.ReadsWrite { // and acknowledged
			s.socket.Signs++
			s.socket.Heard = s.now
			m.signs++
			m.acked = m.now
		}
		return true
	}}
	stick = event{"written, and not taken", func(_ *world, s *shell, m *model) bool {
		k := &s.socket
		if k.Waits {
			return false
		}
		s.rested += s.now.Sub(s.resting)
		k.Waits, k.Flying, k.Left = true, true, s.now
		m.waits, m.stuck, m.stallSpent = true, m.now, false
		return true
	}}
	takeSome = event{"some taken", func(_ *world, s *shell, m *model) bool {
		k := &s.socket
		if !k.Waits {
			return false
		}
		k.Acked++
		k.Took = s.now
		m.stuck, m.stallSpent = m.now, false
		return true
	}}
	takeAll = event{"all taken", func(w *world, s *shell, m *model) bool {
		if !takeSome.do(w, s, m) {
			return false
		}
		s.socket.Waits, s.socket.Flying = false, false
		s.resting, m.waits = s.now, false
		return true
	}}
	hold = event{"held", func(_ *world, s *shell, m *model) bool {
		s.state.Holds++
		m.holds++
		return m.holds < 3
	}}
	release = event{"released", func(_ *world, s *shell, m *model) bool {
		if m.holds == 0 {
			return false
		}
		s.state.Holds--
		s.state.Released = s.now
		s.touch()
		m.holds--
		m.released = m.now
		m.live(m.now)
		return true
	}}
	update = event{"updated", func(_ *world, s *shell, m *model) bool {
		s.policy = 1 - s.policy
		s.stale = true
		if m.looks {
			m.lookBy = m.now.Add(cmp.Or(m.own, 16*tick)) // the timeout that it had
		}
		m.looks = false
		return true
	}}
	evict = event{"evicted", func(w *world, s *shell, m *model) bool {
		idle := w.policies[s.policy].EvictIdle
		if idle == 0 || s.timer.touched.Add(idle) > s.now {
			return false
		}
		s.timer.due = true
		s.state.Evicted = true
		m.evicted = true
		w.visit(s, m)
		return true
	}}
	drain = event{"drained", func(w *world, s *shell, m *model) bool {
		s.state = s.state.Condemned(rules.Drain)
		m.doomed, m.drained = rules.Drain, true
		s.timer.due = true
		w.visit(s, m)
		return true
	}}
	shed = event{"shed", func(w *world, s *shell, m *model) bool {
		if s.state.Doom.Why != 0 || s.state.Age.Told != 0 {
			return false
		}
		s.state = s.state.Warned(rules.Shed)
		m.shed = true
		s.timer.due = true
		w.visit(s, m)
		return true
	}}
	own = event{"own timeout", func(w *world, s *shell, m *model) bool {
		awaited := s.state.Silence.Stage == rules.Opened && (s.timer.rearmed || s.timer.seen)
		if !awaited {
			s.touch()
		}
		if !awaited || w.life.Untold() && m.signs > 0 {
			m.live(m.now)
		}
		s.state.Own = 48*tick - s.state.Own
		if s.state.Own > 32*tick {
			s.state.Own = 32 * tick
		}
		m.own = s.state.Own
		s.timer.delay = w.policies[s.policy].Hop(s.state, draw)
		if !s.timer.due && s.timer.deadline() < s.timer.visit {
			s.file()
		}
		if awaited && w.life.Untold() {
			s.changed, s.timer.due = true, true
			w.visit(s, m)
		}
		return true
	}}

	extend    = says("Extend", mood{verdict: rules.Verdict(5 * tick)})
	pardon    = says("Ignore", mood{verdict: rules.Pardon})
	probeIt   = says("Probe", mood{verdict: rules.ProbeIt})
	condemn   = says("Close", mood{verdict: rules.Condemn})
	talkProbe = says("Probe, and touches", mood{verdict: rules.ProbeIt, talks: true})
	talk      = says("Close, and touches", mood{verdict: rules.Condemn, talks: true})

	fails = event{"probes fail or not", func(_ *world, s *shell, _ *model) bool {
		s.mood.fails = !s.mood.fails
		return true
	}}
	allow = event{"the rate allows closes or not", func(_ *world, s *shell, _ *model) bool {
		s.mood.free = !s.mood.free
		return true
	}}
	want = event{"the user's check wants it closed or not", func(_ *world, s *shell, _ *model) bool {
		s.mood.wants = !s.mood.wants
		return true
	}}
	press = event{"pressure or not", func(_ *world, s *shell, _ *model) bool {
		s.mood.pressure = !s.mood.pressure
		return true
	}}

	moment = event{"3 ticks pass", func(w *world, s *shell, m *model) bool { return w.pass(s, m, s.now.Add(3*tick)) }}
	late   = event{"7 ticks pass while the program stands still", func(w *world, s *shell, m *model) bool {
		s.now = s.now.Add(7 * tick)
		m.now = s.now
		if s.timer.visit <= s.now && s.hand() {
			w.visit(s, m)
		}
		return true
	}}
	// next lets time pass until something is done, or for a minute.
	next = event{"time passes", func(w *world, s *shell, m *model) bool {
		before := w.acts
		for end := s.now.Add(60 * tick); w.acts == before && w.wrong == "" && s.now < end && s.closed == 0; {
			w.pass(s, m, min(end, s.timer.visit))
		}
		return true
	}}
)

// says is what OnIdle says from now on.
func says(what string, next mood) event {
	return event{"OnIdle says " + what, func(_ *world, s *shell, _ *model) bool {
		if s.mood.verdict == next.verdict && s.mood.talks == next.talks {
			return false
		}
		s.mood.verdict, s.mood.talks = next.verdict, next.talks
		return true
	}}
}
