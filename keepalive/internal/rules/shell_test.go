package rules_test

import (
	"fmt"
	"time"

	"github.com/heartwheel-go/heartwheel/keepalive/internal/rules"
)

// tick is the unit of all instants in the comparison with the model.
const tick = time.Second

// at returns an instant, in ticks after the start.
func at(ticks int) rules.Time { return rules.Time(0).Add(time.Duration(ticks) * tick) }

// behind is how much later than they seem arrivals may have been.
const behind = 3 * tick

// born is when each connection was opened: long after the start.
var born = at(1000)

// A shell is a connection, its timer and its socket. It carries outcomes out as package
// keepalive does. It is a value: two equal shells have the same future.
type shell struct {
	now    rules.Time
	policy int  // index of the policy in force
	stale  bool // no decision by this policy yet
	life   rules.Life

	timer  timer
	state  rules.State
	limit  rules.Time
	socket rules.Socket
	beats  uint32
	check  rules.Time // when the user's check is due, or 0
	stall  rules.Stall

	resting rules.Time    // since when nothing has waited for the peer, if nothing does
	rested  time.Duration // for how long nothing had before that

	unread  bool // at the last look
	changed bool // in its first message's time, and nobody would have touched for that

	mood   mood
	closed rules.Reason
}

// every is how often the user's check comes.
const every = 6 * tick

// retry is after how long a connection tries again to be closed if the rate does not allow it.
const retry = 4 * tick

// A mood is how the surroundings answer.
type mood struct {
	verdict  rules.Verdict
	talks    bool // OnIdle touches the connection
	fails    bool // probes can't be sent
	free     bool // the rate allows each close
	pressure bool
	wants    bool // the user's check wants the connection closed
}

// A timer is a timer of the wheel, without the wheel's rounding.
type timer struct {
	touched       rules.Time
	rearmed, seen bool
	due           bool
	until         rules.Time // of a rearmed timer
	delay         time.Duration
	visit         rules.Time // when the hand comes
}

// A move is one action of a shell, as the rules said.
type move struct {
	do  rules.Action
	why rules.Reason
}

func (m move) String() string {
	names := map[rules.Action]string{rules.Probe: "probe", rules.Ask: "ask", rules.Tell: "tell", rules.Inspect: "inspect", rules.Close: "close", reserves: "reserve", would: "would"}
	return fmt.Sprintf("%s(%d)", names[m.do], m.why)
}

// Moves that are no action: mere counts, the last of too many decisions in one visit, and the question to the rate.
const (
	would rules.Action = 100 + iota
	endless
	reserves rules.Action = 99
)

func open(w *world) shell {
	p := &w.policies[0]
	s := shell{now: born, resting: born, life: w.life, socket: rules.Socket{Heard: rules.Unknown, Received: born, Sent: born}}
	if w.checks {
		s.check = born.Add(every)
	}
	e := rules.Evidence{Draw: draw, Born: born, CheckAt: s.check}
	s.state = rules.Open(p, &e)
	s.limit = rules.Limit(p, s.state, &e)
	s.timer.touched, s.timer.delay = born, p.Hop(rules.State{}, draw)
	if p.First > 0 {
		s.timer.rearmed, s.timer.until = true, born.Add(min(p.First, s.timer.delay))
	}
	s.file()
	return s
}

// deadline returns when the timer is due.
func (t *timer) deadline() rules.Time {
	if t.rearmed {
		return t.until
	}
	return t.touched.Add(t.delay)
}

// dueAt returns when the next visit is due.
func (s *shell) dueAt() rules.Time {
	if s.stale || s.limit <= 0 {
		return s.timer.deadline()
	}
	return min(s.timer.deadline(), s.limit)
}

// file makes the timer's entry.
func (s *shell) file() {
	t := &s.timer
	t.visit = t.deadline()
	if t.rearmed {
		t.visit = min(t.visit, s.now.Add(t.delay))
	}
	if s.stale {
		t.visit = 0
	}
	t.visit = max(min(t.visit, s.limit), s.now.Add(tick))
}

func (s *shell) touch() {
	t := &s.timer
	t.touched, t.rearmed, t.seen = s.now, false, false
	if t.due {
		t.due = false
		s.file()
	}
}

// hand is the visit of the hand. It reports whether it handed the connection over.
func (s *shell) hand() bool {
	t := &s.timer
	if t.deadline() > s.now && s.limit > s.now && !s.stale {
		s.file()
		return false
	}
	t.due = true
	return true
}

// look is what the socket says.
func (s *shell) look() rules.Socket {
	k := s.socket
	if s.life == rules.Arrivals && k.Heard != rules.Unknown {
		k.Heard = min(k.Heard.Add(behind), s.now)
	}
	k.Rested = s.rested
	if !k.Waits {
		k.Rested += s.now.Sub(s.resting)
	}
	k.RestedMost = k.Rested
	return k
}

// run decides and carries out, until nothing is left.
func (s *shell) run(w *world) (done []move) {
	var e rules.Evidence
	asks, now := true, s.now
	for n := range 100 {
		if asks {
			w.looked(s)
			asks, now, e.Socket = false, s.now, s.look()
		}
		w.meanwhile(s, 2*n)
		p := &w.policies[s.policy]
		t := &s.timer
		quiet := t.rearmed || t.seen
		t.seen = true
		if !quiet {
			e = e.Lasting()
			w.newSilence()
		}
		e.Life, e.Draw, e.Born, e.Beats = s.life, draw, born, s.beats
		if e.Begun == 0 {
			e.DueAt, e.Begun = s.dueAt(), now
		}
		e.Touched, e.Quiet, e.Due = t.touched, quiet, t.due
		if s.mood.pressure && p.Pressed > 0 {
			e.Pressure = 1
		}
		e.Unread, e.CheckAt, e.Stall = e.Unread || s.unread, s.check, s.stall
		e.Changed = e.Changed || s.changed
		s.changed = false
		if s.stale {
			s.state = rules.Adapt(p, s.state, &e, now)
			t.delay = p.Hop(s.state, draw)
			s.stale = false
		}
		var out rules.Outcome
		s.state, out = rules.Decide(p, s.state, &e, now)
		s.unread, e.Checked = e.Socket.Unread > 0, 0
		s.stall, e.Stall = out.Stall, out.Stall
		s.limit = rules.Limit(p, s.state, &e)
		if !t.due && t.deadline() < t.visit {
			s.file()
		}
		for why, yes := range out.Would {
			if yes {
				done = append(done, move{would, rules.Reason(why)})
			}
		}
		w.meanwhile(s, 2*n+1)
		w.did(s, out)
		switch out.Do {
		case rules.Wait:
			if t.due && t.seen {
				t.due, t.rearmed, t.until = false, true, out.Until
				s.file()
			}
			return done
		case rules.Heard:
			if t.due {
				t.due, t.rearmed, t.seen = false, false, false
				t.touched = max(t.touched, out.Until)
				s.file()
			}
			return done
		case rules.Probe:
			a := e.About(out.Why)
			a.Probed, asks = rules.Sent, true
			if s.socket.Sent = s.now; s.mood.fails {
				a.Probed = rules.Failed // when something was written
			}
		case rules.Ask:
			e.Question(out.Why, s.now).Verdict = s.mood.verdict
			asks = true
			if s.mood.talks {
				s.touch()
			}
		case rules.Inspect:
			if s.check = s.now.Add(every); s.mood.wants {
				e.Checked = rules.Check
			}
			asks = true
		case rules.Tell:
			asks = true
		case rules.Close:
			if out.Paced {
				done = append(done, move{reserves, out.Why})
			}
			if out.Paced && !s.mood.free {
				e.Retry = s.now.Add(retry)
				continue
			}
			if out.Anyway || t.due && t.seen {
				s.closed = out.Why
				return append(done, move{rules.Close, out.Why})
			}
			return done
		}
		done = append(done, move{out.Do, out.Why})
	}
	return append(done, move{do: endless})
}
