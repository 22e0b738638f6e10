package rules_test

import (
	"cmp"
	"fmt"
	"hash/maphash"
	"iter"
	"slices"
	"testing"
	"time"

	"github.com/heartwheel-go/heartwheel/internal/testmain"
	"github.com/heartwheel-go/heartwheel/keepalive/internal/rules"
)

// The model's visits take no time. Here a visit does: at one of its points, or at each of them, time passes and
// something happens. Whatever it is, a connection must not be closed for what is no longer so, and must be closed in
// the end. That is checked with what has happened, and with no model of the decisions.

// A slowVisit is what happens at a point of a visit. It happens in the first visit with that point.
type slowVisit struct {
	point         int // 2n is before the decision n of a visit, and 2n+1 between the decision and what it leads to
	each          bool
	before, after int // ticks that pass before it happens, and after it
	what          event

	m    *model // what happened
	past past

	points int  // of the longest visit
	again  bool // the connection was handed over during its visit
}

// A past is what has happened to a connection, and when, besides what the model has.
type past struct {
	took    rules.Time // when the peer last took bytes that had waited
	looked  moments    // as of the last look at the socket
	called  rules.Time // when the user was last asked, or a probe sent
	probed  rules.Time // when the last probe was sent, or could not be
	failed  bool       // it could not be
	spared  rules.Time // the user has spared this silence until then
	about   tally
	leaving bool // the close waits for the rate
}

// A tally has the numbers of one silence.
type tally struct {
	asked  int // and the user did not spare it
	probed int // and the probe was sent
	would  int // in a dry run
}

// moments are when something last happened, at an instant.
type moments struct {
	at                         rules.Time
	life, received, sent, took rules.Time
	stuck                      rules.Time // model.stuck, or Never
}

func (v *slowVisit) moments(w *world, now rules.Time) moments {
	m := v.m
	life := m.touched
	switch w.life {
	case rules.Reads, rules.Arrivals:
		life = max(life, m.received)
	case rules.ReadsWrite:
		life = max(life, m.received, m.acked)
	}
	stuck := rules.Never
	if m.waits {
		stuck = m.stuck
	}
	return moments{now, life, max(m.received, m.released), max(m.sent, m.released), v.past.took, stuck}
}

// meanwhile lets the time of a visit pass.
func (w *world) meanwhile(s *shell, point int) {
	v := w.slow
	if v == nil {
		return
	}
	v.points = max(v.points, point+1)
	if !v.each && point != v.point {
		return
	}
	v.point = -1
	pass := func(ticks int) {
		s.now = s.now.Add(time.Duration(ticks) * tick)
		v.m.now = s.now
		if !s.timer.due && s.timer.visit <= s.now && s.hand() {
			v.again = true
		}
	}
	pass(v.before)
	if v.what.do(w, s, v.m) {
		v.changed(w, s, v.what)
	}
	pass(v.after)
}

// newSilence notes that a silence has ended.
func (w *world) newSilence() {
	if w.slow != nil {
		w.slow.past.about, w.slow.past.spared = tally{}, 0
	}
}

// changed notes an event. After some of them a silence is decided about anew.
func (v *slowVisit) changed(w *world, s *shell, what event) {
	switch what.name {
	case "updated":
		v.past.about = tally{}
		if v.past.spared == rules.Never { // an update ends an Ignore
			v.past.spared = 0
		}
	case "pressure or not":
		if w.policies[s.policy].Pressed > 0 {
			v.past.about = tally{}
		}
	case "own timeout", "held", "released":
		v.past.about = tally{}
	}
}

// looked notes that the socket was asked.
func (w *world) looked(s *shell) {
	v := w.slow
	if v == nil {
		return
	}
	p, now := &v.past, v.moments(w, s.now)
	if now.received > p.looked.received { // this program may be slow to read, and then the user is asked again
		p.about.asked = 0
	}
	if now.took > p.looked.took { // a held connection begins anew
		p.about = tally{}
	}
	p.looked = now
}

// did notes what was done in a visit.
func (w *world) did(s *shell, out rules.Outcome) {
	v := w.slow
	if v == nil {
		return
	}
	p := &v.past
	touched := !s.timer.rearmed && !s.timer.seen // since the decision: it was about the silence before
	if limit := out.Why == rules.ReadIdle || out.Why == rules.WriteIdle; !limit && !touched {
		if wrong := p.count(out, s, &w.policies[s.policy]); wrong != "" && w.wrong == "" {
			w.wrong = fmt.Sprintf("at %v %s\n%+v\n%s", s.now.Sub(born), wrong, v.past, detail(s, v.m))
		}
	}
	stage := s.state.Silence.Stage
	if p.leaving && stage == rules.Listening { // a timeout has become longer before the rate allowed the close
		p.about = tally{}
	}
	p.leaving = stage == rules.Leaving
	switch out.Do {
	case rules.Ask:
		p.called = s.now
	case rules.Probe:
		p.called, p.failed, v.m.sent = s.now, s.mood.fails, s.now
		if s.state.Silence.Probes != 255 { // otherwise the user's probe before this one is waited for
			p.probed = s.now
		}
	}
}

// count counts an outcome for a silence. It returns an error, or "".
func (p *past) count(out rules.Outcome, s *shell, policy *rules.Policy) string {
	verdict, spared, n := s.mood.verdict, p.spared > s.now && s.state.Holds == 0, &p.about
	probes := policy.ProbeCount
	if policy.Asks && probes > 0 {
		probes++ // the user's
	}
	would := out.Would[rules.Idle] || out.Would[rules.NoAnswer] || out.Would[rules.FirstMessage]
	switch {
	case would:
		n.would++
	case out.Do == rules.Ask && verdict == rules.Pardon:
		p.spared = rules.Never
	case out.Do == rules.Ask && verdict > 0:
		p.spared = s.now.Add(time.Duration(verdict))
	case out.Do == rules.Ask:
		n.asked++
	case out.Do == rules.Probe && !s.mood.fails:
		n.probed++
	default:
		return ""
	}
	switch {
	case spared && policy.Asks:
		return "something is done, though the user has spared it"
	case n.would > 1:
		return "counted twice by a dry run"
	case n.asked > 1:
		return "asked twice"
	case n.probed > probes:
		return "probed too often"
	}
	return ""
}

// visit is a visit that may take time, and another one if the connection was handed over meanwhile.
func (v *slowVisit) visit(w *world, s *shell) {
	for again := true; again && s.closed == 0 && w.wrong == ""; again = v.again {
		v.again = false
		moves := s.run(w)
		v.each = false
		w.visits++
		w.acts += len(moves)
		for _, m := range moves {
			switch m.do {
			case endless:
				w.wrong = "no end of decisions"
			case rules.Close:
				if wrong := v.unfair(w, s, m.why); wrong != "" {
					w.wrong = fmt.Sprintf("at %v closed for %d: %s\n%+v\n%s", s.now.Sub(born), m.why, wrong, v.past, detail(s, v.m))
				}
			}
		}
	}
}

// unfair returns what is wrong about closing a connection now, for a reason, or "".
func (v *slowVisit) unfair(w *world, s *shell, why rules.Reason) string {
	p, m, past, looked := &w.policies[s.policy], v.m, v.past, v.past.looked
	timeout := cmp.Or(s.state.Own, p.Timeout)
	scaled := func(d time.Duration) time.Duration {
		return time.Duration(float64(d) * float64(timeout) / float64(p.Timeout))
	}
	patience := timeout
	if p.Pressed > 0 {
		patience = scaled(p.Pressed)
	}
	touched := s.now.Sub(m.touched)
	switch {
	case why == rules.MaxAge || why == rules.TooMany || why == rules.TooSlow || why == rules.Check || why == rules.Drain:
		return ""
	case past.failed && s.state.Doom.Why == rules.NoAnswer && s.state.Doom.End < rules.UnlessRead:
		return "" // some of its probe may have been sent
	case looked.at < past.called:
		return "nobody has looked since the user was called"
	}
	if silence := why == rules.Idle || why == rules.NoAnswer || why == rules.FirstMessage; silence && p.Asks && m.holds == 0 && s.now < past.spared {
		return "spared by the user"
	}
	switch why {
	case rules.Idle:
		switch {
		case m.holds > 0 && looked.at.Sub(looked.took) < timeout:
			return "the peer has taken something"
		case m.holds > 0:
		case touched < patience:
			return "touched"
		case looked.at.Sub(looked.life) < patience && w.life != rules.Touches:
			return "alive"
		case looked.at.Sub(looked.took) < patience && s.socket.Backlog:
			return "the peer has taken something"
		}
	case rules.NoAnswer:
		switch {
		case m.touched > past.probed,
			w.life == rules.Arrivals && looked.received > past.probed:
			return "it has answered"
		case s.socket.Backlog && looked.at.Sub(looked.took) < scaled(p.ProbeAfter)*3/4:
			return "the peer has taken something"
		case s.mood.verdict != rules.ProbeIt && touched < scaled(p.ProbeAfter)*3/4:
			return "probed early"
		case !past.failed && looked.at.Sub(past.probed) < scaled(p.ProbeTimeout)-tick:
			return "no time for an answer"
		}
	case rules.FirstMessage:
		switch {
		case m.spoke:
			return "touched"
		case s.now.Sub(born) < m.first:
			return "no time for the first message"
		case w.life.Untold() && m.arrived > 0 && looked.received == m.received:
			return "its first message has come"
		}
	case rules.ReadIdle:
		if looked.at.Sub(looked.received) < p.ReadIdle {
			return "bytes have come"
		}
	case rules.WriteIdle:
		if looked.at.Sub(looked.sent) < p.WriteIdle {
			return "bytes were sent"
		}
	case rules.WriteStall:
		if looked.stuck == rules.Never || looked.at.Sub(looked.stuck) < p.WriteStall {
			return "the peer has taken something"
		}
	case rules.Evicted:
		switch {
		case touched < p.EvictIdle:
			return "touched"
		case w.life != rules.Touches && looked.at.Sub(looked.life) < p.EvictIdle:
			return "alive"
		}
	}
	return ""
}

// lives reports whether a connection that nobody hears of any more is still not closed after a long time.
func (v *slowVisit) lives(w *world, s *shell) bool {
	s.mood = mood{free: true, pressure: s.mood.pressure}
	if w.policies[s.policy].DryRun || s.state.Holds > 0 || s.state.Silence.Stage == rules.Ignored {
		return false
	}
	for end := s.now.Add(300 * tick); s.closed == 0 && s.now < end && w.wrong == ""; {
		s.now = max(s.now, s.timer.visit)
		v.m.now = s.now
		if s.timer.due {
			return true // nobody looks at it any more
		}
		if s.hand() {
			v.visit(w, s)
		}
	}
	return s.closed == 0 && s.state.Holds == 0
}

// What nobody tells of, but the socket.
var (
	blocked = event{"blocked", func(_ *world, s *shell, m *model) bool {
		s.socket.Pending, s.socket.Backlog, s.socket.Took, s.socket.Sent = true, true, s.now, s.now
		m.sent = s.now
		return true
	}}
	taken = event{"taken", func(w *world, s *shell, m *model) bool {
		k := &s.socket
		if !k.Pending {
			return false
		}
		k.Acked++
		k.Took = s.now
		w.slow.past.took = s.now
		if w.life == rules.ReadsWrite {
			k.Signs++
			k.Heard = s.now
			m.acked = s.now
		}
		return true
	}}
	nothing = event{"nothing", func(*world, *shell, *model) bool { return true }}
)

func TestSlowVisits(t *testing.T) {
	deep := depth()/2 - 1
	if testmain.Race && *depthFlag == 0 {
		deep-- // one event and a slow one is a twentieth of the work
	}
	features := append(slices.Clone(features), feature{"full", func(*rules.Policy) {}, []event{blocked, taken}})
	for i, f := range features {
		for j, g := range features[:i] {
			t.Run(f.name+"+"+g.name, func(t *testing.T) {
				t.Parallel()
				disturb(t, deep, f, g)
				if f.name == "asks" {
					disturb(t, deep, g, f) // an update takes OnIdle away
				}
				for _, h := range features[:j] {
					if deep > 1 || f.name == "asks" {
						disturb(t, min(deep, 1), f, g, h)
					}
				}
			})
		}
	}
}

func disturb(t *testing.T, depth int, features ...feature) {
	for life := rules.Reads; life <= rules.Arrivals && !t.Failed(); life++ {
		if !slices.ContainsFunc(features, func(f feature) bool { return !possible(life, f) }) {
			w := newWorld(life, features...)
			if failure := w.disturb(depth); failure != "" {
				t.Errorf("%s: %s", w.name, failure)
			}
		}
	}
}

// disturb goes through all sequences of some events. The visits of one more event are slow.
func (w *world) disturb(depth int) (failure string) {
	type node struct {
		joint
		past past
	}
	seed := maphash.MakeSeed()
	seen := map[uint64]bool{}
	var follow func(n node, path string, left int)
	follow = func(n node, path string, left int) {
		for _, e := range w.events {
			j := n
			v := slowVisit{point: -1, m: &j.model, past: j.past}
			v.changed(w, &j.shell, e) // before its visit
			w.slow = &v
			if !e.do(w, &j.shell, &j.model) {
				continue
			}
			if w.wrong != "" {
				failure = path + e.name + ": " + w.wrong
				return
			}
			j.past = v.past
			for v := range slowVisits(v.points) {
				j := n
				v.m, v.past = &j.model, j.past
				if w.runSlowly(v, e, &j.shell); w.wrong != "" {
					failure = fmt.Sprintf("%s%s (at %d, each %v: %d, %s, %d): %s", path, e.name, v.point, v.each, v.before, v.what.name, v.after, w.wrong)
					return
				}
			}
			if key := maphash.Comparable(seed, j); left > 0 && j.shell.closed == 0 && !seen[key] {
				seen[key] = true
				follow(j, path+e.name+", ", left-1)
			}
			if failure != "" {
				return
			}
		}
	}
	follow(node{joint: joint{open(w), w.newModel()}, past: past{took: born}}, "", depth)
	return failure
}

// runSlowly lets an event happen with a slow visit, and then time pass.
func (w *world) runSlowly(v slowVisit, e event, s *shell) {
	w.slow = &v
	v.changed(w, s, e)
	e.do(w, s, v.m)
	next.do(w, s, v.m)
	if w.wrong == "" && s.closed == 0 && !s.socket.Full && v.lives(w, s) && w.wrong == "" && !s.socket.Full { // a full queue keeps it, also if it fills as late as that
		w.wrong = "it lives for ever\n" + detail(s, v.m)
	}
}

// slowVisits yields all kinds for visits with so many points.
func slowVisits(points int) iter.Seq[slowVisit] {
	return func(yield func(slowVisit) bool) {
		if points <= 2 { // it only waits
			return
		}
		byPeer := []event{nothing, touch, arrive, read, write, taken, takeSome}
		for i, what := range append(byPeer, update, press, fails, hold, release) {
			ours := i >= len(byPeer)
			for _, times := range [][2]int{{0, 1}, {1, 1}, {1, 7}, {0, 30}} {
				v := slowVisit{what: what, before: times[0], after: times[1]}
				v.each = !ours && v.before+v.after == 1 || what.name == nothing.name // other visits may find a new silence each time
				for v.point = -1; v.point < points+2; v.point++ {
					if ours && v.point%2 != 0 {
						continue // what this program changes holds for the next decision
					}
					if !yield(v) {
						return
					}
					v.each = false
				}
			}
		}
	}
}
