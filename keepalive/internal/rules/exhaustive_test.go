package rules_test

import (
	"cmp"
	"flag"
	"fmt"
	"hash/maphash"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/heartwheel-go/heartwheel/internal/testmain"
	"github.com/heartwheel-go/heartwheel/keepalive/internal/rules"
)

var depthFlag = flag.Int("depth", 0, "number of events in each sequence; 0 means 5, and less with -short or -race")

// A world is some policies, and what counts as life.
type world struct {
	name     string
	life     rules.Life
	policies [2]rules.Policy // the second comes with an update
	events   []event
	checks   bool // the user has a check

	slow   *slowVisit // if visits take time, what happens meanwhile
	wrong  string     // the first disagreement
	acts   int
	visits int
}

// newWorld returns a world with some features. An update takes the last of them away, and the
// next one brings it back.
func newWorld(life rules.Life, features ...feature) *world {
	w := &world{life: life}
	for i := range w.policies {
		w.policies[i] = rules.Policy{Tick: tick, Blur: tick, Timeout: 16 * tick}
	}
	events := [][]event{{next, moment, late, touch, update}}
	if life == rules.Arrivals || life == rules.ReadsWrite {
		events = append(events, []event{read})
	}
	if life == rules.ReadsWrite {
		events = append(events, []event{write})
	}
	for i, f := range features {
		w.name += f.name + "+"
		f.set(&w.policies[0])
		w.checks = w.checks || f.name == "checks"
		if i < len(features)-1 {
			f.set(&w.policies[1])
		}
		events = append(events, f.events)
	}
	w.name += fmt.Sprintf("life=%d", life)
	for _, e := range slices.Concat(events...) {
		if !slices.ContainsFunc(w.events, func(has event) bool { return has.name == e.name }) {
			w.events = append(w.events, e)
		}
	}
	return w
}

// possible reports whether a Config allows that.
func possible(life rules.Life, features ...feature) bool {
	for _, f := range features {
		if f.name == "probes" && life == rules.ReadsWrite || life == rules.Arrivals && f.name == "beats" {
			return false
		}
	}
	return true
}

// pass lets time pass until an instant.
func (w *world) pass(s *shell, m *model, until rules.Time) bool {
	for s.closed == 0 && w.wrong == "" && s.timer.visit <= until {
		w.dueUntil(s, m, s.timer.visit)
		s.now = max(s.now, s.timer.visit)
		m.now = s.now
		if s.hand() {
			w.visit(s, m)
		}
	}
	if s.closed == 0 {
		w.dueUntil(s, m, until)
		s.now = max(s.now, until) // a slow visit may have taken longer
		m.now = s.now
	}
	return true
}

// dueUntil checks for missed duties before an instant: the shell looks at that instant.
func (w *world) dueUntil(s *shell, m *model, until rules.Time) {
	if w.wrong != "" || w.slow != nil {
		return
	}
	for t := s.now.Add(tick); t < until; t = t.Add(tick) {
		trial := *m
		trial.now, trial.isTrial = t, true
		for _, done := range trial.visit(w, s.policy, s.mood, t) {
			if until > w.latest(s, m, t) {
				w.wrong = fmt.Sprintf("nobody looks until %v, and at %v %v has to be done\n%s", until.Sub(born), t.Sub(born), done, detail(s, m))
			}
		}
	}
}

// latest returns when the shell has to look at the latest if something is to be done at t: it
// may learn of an update and of pressure later.
func (w *world) latest(s *shell, m *model, t rules.Time) rules.Time {
	t = max(t, m.lookBy)
	if s.mood.pressure {
		pressed := max(w.policies[0].Pressed, w.policies[1].Pressed)
		stretch := float64(cmp.Or(m.own, 16*tick)) / float64(16*tick)
		t = max(t, s.now.Add(time.Duration(float64(pressed)*stretch)))
	}
	return t
}

// visit has the rules and the model decide, and compares.
func (w *world) visit(s *shell, m *model) {
	if s.closed != 0 {
		return
	}
	if w.slow != nil {
		w.slow.visit(w, s)
		return
	}
	want := m.visit(w, s.policy, s.mood, s.dueAt())
	got := s.run(w)
	inOrder(want)
	inOrder(got)
	w.visits++
	w.acts += len(got)
	if w.wrong == "" && !slices.Equal(got, want) {
		w.wrong = fmt.Sprintf("at %v\n  rules %v\n  model %v\n%s", s.now.Sub(born), got, want, detail(s, m))
	}
}

// joint is what the future depends on.
type joint struct {
	shell shell
	model model
}

// explore goes through all sequences of events, and returns how many there are.
func (w *world) explore(depth int) (states int, failure string) {
	type node struct {
		joint
		path string
	}
	seed := maphash.MakeSeed()
	seen := map[uint64]struct{}{}
	level := []node{{joint: joint{open(w), w.newModel()}}}
	for d := range depth {
		var nextLevel []node
		for _, n := range level {
			for i, e := range w.events {
				j := n.joint
				if !e.do(w, &j.shell, &j.model) {
					continue
				}
				if w.wrong != "" {
					return len(seen), fmt.Sprintf("%s: %s%s: %s", w.name, w.names(n.path), e.name, w.wrong)
				}
				if j.shell.closed != 0 {
					continue
				}
				key := maphash.Comparable(seed, j)
				if _, ok := seen[key]; ok {
					continue
				}
				seen[key] = struct{}{}
				if d < 3 {
					w.checkDeadline(j.shell)
					if w.wrong != "" {
						return len(seen), fmt.Sprintf("%s: %s%s: %s", w.name, w.names(n.path), e.name, w.wrong)
					}
				}
				if d+1 < depth {
					nextLevel = append(nextLevel, node{j, n.path + string(rune(i))})
				}
			}
		}
		level = nextLevel
	}
	return len(seen), ""
}

func TestEveryPairOfPoliciesAgreesWithModel(t *testing.T) {
	var pairs [][]feature
	for _, f := range features {
		for _, g := range features {
			if f.name != g.name {
				pairs = append(pairs, []feature{f, g})
			}
		}
	}
	d := depth()
	if testmain.Race && *depthFlag == 0 {
		d--
	}
	compare(t, pairs, 2, d)
}

func TestEveryThreePoliciesAgreeWithModel(t *testing.T) {
	var triples [][]feature
	for i, f := range features {
		for j, g := range features[:i] {
			for _, h := range features[:j] {
				triples = append(triples, []feature{f, g, h})
			}
		}
	}
	compare(t, triples, 3, depth()-2)
}

// All policies at once, but for some.
func TestAllPoliciesAgreeWithModel(t *testing.T) {
	var sets [][]feature
	for _, without := range []string{"", "dry", "dry pace", "asks", "dry pace hold first", "probes dry", "drain evict pressure"} {
		var set []feature
		for _, f := range features {
			if f.name != "grace" && !slices.Contains(strings.Fields(without), f.name) {
				set = append(set, f)
			}
		}
		for i := range set { // each is the last in turn, and goes with an update
			sets = append(sets, slices.Concat(set[i+1:], set[:i+1]))
		}
	}
	compare(t, sets, 10, depth()-3)
}

// depth returns how many events a sequence has.
func depth() int {
	switch {
	case *depthFlag > 0:
		return *depthFlag
	case testing.Short() || testmain.Race:
		return 4
	}
	return 5
}

// compare explores the worlds of some policies, if at least so many of them go together.
func compare(t *testing.T, policies [][]feature, least, depth int) {
	begin := time.Now()
	states, visits, worlds, failures := 0, 0, 0, 0
	for _, features := range policies {
		for life := rules.Reads; life <= rules.Arrivals && failures < 20; life++ {
			features := slices.DeleteFunc(slices.Clone(features), func(f feature) bool { return !possible(life, f) })
			if len(features) < least {
				continue
			}
			w := newWorld(life, features...)
			n, failure := w.explore(depth)
			states, visits, worlds = states+n, visits+w.visits, worlds+1
			if failure != "" {
				failures++
				t.Error(failure)
			}
		}
	}
	t.Logf("depth %d: %d worlds, %d states, %d visits, %v", depth, worlds, states, visits, time.Since(begin))
}

// checkDeadline compares Deadline with what happens if nothing more is heard of the peer, and
// nobody puts it off.
func (w *world) checkDeadline(s shell) {
	p := &w.policies[s.policy]
	if s.stale || p.DryRun || w.readsSocket() {
		return
	}
	quiet := s.timer.rearmed || s.timer.seen
	e := rules.Evidence{Draw: draw, Born: born, Touched: s.timer.touched, Quiet: quiet}
	if s.mood.pressure && p.Pressed > 0 {
		e.Pressure = 1
	}
	at, why := rules.Deadline(p, s.state, e, s.now)
	end := s
	end.mood = mood{free: true, pressure: s.mood.pressure}
	if end.state.Doom.Why != 0 { // each decision tries anew
		end.timer.due = true
		end.run(w)
	}
	for end.closed == 0 && end.now < s.now.Add(300*tick) {
		if end.now = end.timer.visit; end.hand() {
			end.run(w)
		}
	}
	heard := s.socket.Signs > 0 // Deadline does not ask the socket
	switch {
	case p.Pressed > 0 && quiet: // pressure may have changed in this silence
	case !heard && end.closed != why,
		why != 0 && end.closed != 0 && end.now.Add(tick) < at, // an answer may have a tick less
		!heard && end.closed != 0 && end.now > max(at, s.now):
		w.wrong = fmt.Sprintf("at %v Deadline says %v, for %d; closed at %v, for %d\n%+v",
			s.now.Sub(born), at.Sub(born), why, end.now.Sub(born), end.closed, s)
	}
}

// readsSocket reports whether only the socket knows of some deadlines.
func (w *world) readsSocket() bool {
	return slices.ContainsFunc(w.policies[:], func(p rules.Policy) bool {
		return p.ReadIdle > 0 || p.WriteIdle > 0 || p.WriteStall > 0 || p.MinBeat > 0 || p.MinBytes > 0
	})
}

func detail(s *shell, m *model) string { return fmt.Sprintf("  %+v\n  %+v", *s, *m) }

// inOrder sorts adjacent counts: their order in one decision is of no matter.
func inOrder(moves []move) {
	less := func(a, b move) bool {
		return a.do >= would && b.do >= would && (a.do < b.do || a.do == b.do && a.why < b.why)
	}
	for i := range moves {
		for j := i; j > 0 && less(moves[j], moves[j-1]); j-- {
			moves[j], moves[j-1] = moves[j-1], moves[j]
		}
	}
}

// names returns the names of a sequence of events.
func (w *world) names(path string) (names string) {
	for _, i := range path {
		names += w.events[i].name + ", "
	}
	return names
}
