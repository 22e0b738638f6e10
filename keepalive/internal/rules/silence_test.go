package rules_test

import (
	"testing"
	"time"

	"github.com/heartwheel-go/heartwheel/keepalive/internal/rules"
)

// The program stood still between the question to the socket and the decision, which is one of that instant. Bytes may
// have come meanwhile.
func TestASilenceEndsOnlyIfTheSocketWasAskedAfterIt(t *testing.T) {
	for asks, want := range map[rules.Time]rules.Outcome{at(15): wait(at(16)), at(18): closes(rules.Idle)} {
		trace(t, rules.Policy{}, rules.State{}, row{now: asks, with: and(life(rules.Arrivals), asked(rules.Socket{Heard: at(1)})), want: want})
	}
}

func TestSilence(t *testing.T) {
	for _, c := range []struct {
		name   string
		policy rules.Policy
		state  rules.State
		rows   []row
	}{
		{name: "to the instant", rows: []row{
			{now: at(16) - 1, want: wait(at(16))},
			{now: at(16), with: mute, want: closes(rules.Idle)},
		}},
		{name: "a touch begins it anew", rows: []row{
			{now: at(16), with: touchedAt(at(15)), want: wait(at(31))},
			{now: at(31), with: and(touchedAt(at(31)), mute), want: wait(at(47))},
		}},
		{name: "touched while it was looked at", rows: []row{
			{now: at(16), with: and(mute, touchedAt(at(16))), want: wait(at(32))},
		}},
		{name: "timeout of its own", state: rules.State{Own: 3 * tick}, rows: []row{
			{now: at(3) - 1, want: wait(at(3))},
			{now: at(3), with: mute, want: closes(rules.Idle)},
		}},
		{name: "it speaks in the time that the user gave", policy: rules.Policy{Asks: true}, rows: []row{
			{now: at(16), with: and(life(rules.Arrivals), mute, answer(rules.Idle, rules.Verdict(90*tick))), want: wait(at(32))},
			{now: at(32), with: and(life(rules.Arrivals), mute), want: wait(at(48))},
			{now: at(48), with: and(life(rules.Arrivals), asked(rules.Socket{Heard: at(40), Signs: 1})), want: heard(at(40))},
		}},
		{name: "heard of so long ago that the next silence is over", rows: []row{
			{now: at(50), with: asked(rules.Socket{Heard: at(20), Signs: 1}), want: heard(at(34))},
		}, state: rules.State{Silence: rules.Silence{Stage: rules.Extended, Until: at(50)}}},
		{name: "for ever", policy: rules.Policy{Timeout: forever}, rows: []row{
			{now: 0, want: wait(rules.Never)},
			{now: rules.Never - 1, want: wait(rules.Never)},
			{now: 5, with: touchedAt(5), want: wait(rules.Never)},
		}},
		{name: "held", state: rules.State{Holds: 2}, rows: []row{
			{now: at(16), with: mute, want: wait(at(32))},
			{now: at(1000), with: mute, want: wait(at(1016))},
			{now: rules.Never - 1, with: mute, want: wait(rules.Never)},
		}},
		{name: "the socket has heard", rows: []row{
			{now: at(16), with: asked(rules.Socket{Heard: at(3)}), want: heard(at(3))},
			{now: at(19), with: asked(rules.Socket{Heard: at(3)}), want: closes(rules.Idle)},
		}},
		{name: "nothing but touches", rows: []row{
			{now: at(16), with: and(life(rules.Touches), asked(rules.Socket{Heard: at(15), Received: rules.Unknown})), want: closes(rules.Idle)},
		}},
		{name: "a backlog, and the peer takes some of it", rows: []row{
			{now: at(16), with: and(life(rules.Touches), backlog(at(15))), want: heard(at(15))},
			{now: at(31) - 1, with: and(life(rules.Touches), backlog(at(15)+1)), want: heard(at(15) + 1)},
			{now: at(31), with: and(life(rules.Touches), backlog(at(15))), want: closes(rules.Idle)},
		}},
		{name: "unread bytes, three times", rows: []row{
			{now: at(16), with: asked(rules.Socket{Unread: 1}), want: slowUntil(at(18))},
			{now: at(18), with: asked(rules.Socket{Unread: 1}), want: slowUntil(at(20))},
			{now: at(25), with: asked(rules.Socket{Unread: 1}), want: slowUntil(at(30))}, // as much as it was late
			{now: at(30), with: asked(rules.Socket{Unread: 1}), want: closes(rules.Idle)},
		}},
		{name: "bytes read, and no touch yet", rows: []row{
			{now: at(16), with: and(life(rules.Touches), asked(rules.Socket{Received: at(15), Taken: 1})), want: sparedUntil(at(18))},
			{now: at(18), with: touchedAt(at(17)), want: wait(at(33))},
		}},
		{name: "bytes at once with the touch", rows: []row{
			{now: at(16), with: and(life(rules.Touches), asked(rules.Socket{Received: at(1), Taken: 1})), want: closes(rules.Idle)},
		}},
		{name: "bytes after the touch, and a hand that sleeps", policy: rules.Policy{Blur: 8 * tick}, rows: []row{
			{now: at(16), with: and(life(rules.Touches), asked(rules.Socket{Received: at(2), Taken: 1})), want: sparedUntil(at(32))},
		}},
		{name: "nobody reads what arrives", rows: []row{
			{now: at(16), with: and(life(rules.Touches), asked(rules.Socket{Received: at(15), Unread: 1})), want: slowUntil(at(18))},
			{now: at(18), with: and(life(rules.Touches), asked(rules.Socket{Received: at(15), Unread: 1})), want: slowUntil(at(31))},
			{now: at(31), with: and(life(rules.Touches), asked(rules.Socket{Received: at(30), Unread: 2})), want: slowUntil(at(46))},
		}},
		{name: "a transfer that is slower than the peer", rows: []row{
			{now: at(16), with: asked(rules.Socket{Heard: rules.Unknown, Unread: 5, Taken: 5, Moves: true}), want: slowUntil(at(32))},
			{now: at(32), with: asked(rules.Socket{Heard: rules.Unknown, Unread: 5, Taken: 9, Moves: true}), want: slowUntil(at(48))},
			{now: at(48), with: asked(rules.Socket{Heard: rules.Unknown, Unread: 5, Taken: 9, Moves: true}), want: slowUntil(at(50))},
		}},
		{name: "late, and all was read", rows: []row{
			{now: at(22), with: and(life(rules.Arrivals), dueAt(at(16)), asked(rules.Socket{Heard: at(0), Received: at(0)})), want: heard(at(22))},
		}},
		{name: "five ticks late are not busy", rows: []row{
			{now: at(21), with: and(life(rules.Arrivals), dueAt(at(16)), asked(rules.Socket{Heard: at(0), Received: at(0)})), want: closes(rules.Idle)},
		}},
		{name: "a shorter timeout since just now is not late", rows: []row{
			{now: at(22), with: and(life(rules.Arrivals), asked(rules.Socket{Heard: at(0), Received: at(0)})), want: closes(rules.Idle)},
		}},
		{name: "late, but nothing came", rows: []row{
			{now: at(100), with: and(life(rules.Arrivals), mute, dueAt(at(21)), func(e *rules.Evidence) { e.Touched = at(5) }), want: closes(rules.Idle)},
		}},
		{
			name: "a look for a window takes no sign away", policy: rules.Policy{MinBytes: 1, Strikes: 9, Asks: true},
			state: rules.State{Rates: rules.Rates{Next: at(10)}, Silence: rules.Silence{Stage: rules.Extended, Why: rules.Idle, Until: at(20)}}, rows: []row{
				{now: at(10), with: asked(rules.Socket{Heard: at(9), Signs: 1, Arrived: 1}), want: wait(at(20))},
				{now: at(20), with: asked(rules.Socket{Heard: at(9), Signs: 1, Arrived: 1}), want: heard(at(9))},
			},
		},
		{name: "pressure", policy: rules.Policy{Pressed: 4 * tick}, rows: []row{
			{now: at(2), want: wait(at(6))}, // it may rise
			{now: at(2), with: func(e *rules.Evidence) { e.Pressure = 0.5 }, want: wait(at(6))},
			{now: at(10) - 1, with: func(e *rules.Evidence) { e.Pressure = 0.5 }, want: wait(at(10))},
			{now: at(10), with: and(mute, func(e *rules.Evidence) { e.Pressure = 0.5 }), want: closes(rules.Idle)},
		}},
		{name: "full pressure", policy: rules.Policy{Pressed: 4 * tick}, rows: []row{
			{now: at(4) - 1, with: func(e *rules.Evidence) { e.Pressure = 1 }, want: wait(at(4))},
			{now: at(4), with: and(mute, func(e *rules.Evidence) { e.Pressure = 1 }), want: closes(rules.Idle)},
		}},
		{name: "dry run", policy: rules.Policy{DryRun: true}, rows: []row{
			{now: at(16), with: mute, want: counted(wait(at(32)), rules.Idle)},
			{now: at(32), with: mute, want: wait(at(48))},
			{now: at(48), with: asked(rules.Socket{Heard: at(40), Signs: 1}), want: heard(at(40))},
			{now: at(56), with: and(mute, func(e *rules.Evidence) { e.Touched = at(40) }), want: counted(wait(at(72)), rules.Idle)},
		}},
		{name: "dry run, and looked at so late that somebody may have been heard", policy: rules.Policy{DryRun: true}, rows: []row{
			{now: at(16), with: and(life(rules.Arrivals), asked(rules.Socket{Heard: 0, Signs: 1})), want: counted(wait(at(32)), rules.Idle)},
			{now: at(500), with: and(life(rules.Arrivals), dueAt(at(32)), asked(rules.Socket{Heard: 0, Signs: 1})), want: wait(at(516))},
			{now: at(516), with: and(life(rules.Arrivals), asked(rules.Socket{Heard: at(510), Signs: 2})), want: heard(at(510))},
		}},
		{name: "the rate allows it later", policy: rules.Policy{Paced: true}, rows: []row{
			{now: at(16), with: mute, want: ifAllowed(closes(rules.Idle))},
			{now: at(16), with: and(mute, retryAt(at(20))), want: wait(at(20))},
			{now: at(20), with: mute, want: ifAllowed(closes(rules.Idle))},
		}},
		{name: "the rate does not allow it for an hour", policy: rules.Policy{Paced: true}, rows: []row{
			{now: at(16), with: mute, want: ifAllowed(closes(rules.Idle))},
			{now: at(16), with: and(mute, retryAt(at(3616))), want: wait(at(3616))},
			{now: at(3616), with: mute, want: ifAllowed(closes(rules.Idle))},
			{now: at(3616), with: and(mute, retryAt(at(7216))), want: wait(at(7216))},
			{now: at(3617), want: wait(at(7216))},
		}},
		{name: "the kernel's activity when the rate allows it", policy: rules.Policy{Paced: true}, rows: []row{
			{now: at(16), with: and(life(rules.Arrivals), asked(rules.Socket{Heard: 0, Signs: 1})), want: ifAllowed(closes(rules.Idle))},
			{now: at(500), with: and(life(rules.Arrivals), dueAt(at(16).Add(time.Hour)), asked(rules.Socket{Heard: 0, Signs: 1})), want: ifAllowed(closes(rules.Idle))},
		}},
		{name: "bytes that wait when the rate allows it", policy: rules.Policy{Paced: true}, rows: []row{
			{now: at(16), with: and(life(rules.Touches), mute), want: ifAllowed(closes(rules.Idle))},
			{now: at(16), with: and(life(rules.Touches), mute, retryAt(at(500))), want: wait(at(500))},
			{now: at(500), with: and(life(rules.Touches), asked(rules.Socket{Unread: 1})), want: slowUntil(at(502))},
			{now: at(502), with: and(life(rules.Touches), asked(rules.Socket{})), want: ifAllowed(closes(rules.Idle))},
		}},
		{name: "heard while the rate does not allow it", policy: rules.Policy{Paced: true}, rows: []row{
			{now: at(16), with: mute, want: ifAllowed(closes(rules.Idle))},
			{now: at(20), with: asked(rules.Socket{Heard: at(18), Signs: 1}), want: heard(at(18))},
		}},
	} {
		t.Run(c.name, func(t *testing.T) { trace(t, c.policy, c.state, c.rows...) })
	}
}

// The timeout became longer after the user had said something, or the connection began to wait. It has all of it.
func TestStagesUnderALongerTimeout(t *testing.T) {
	p := rules.Policy{Timeout: 60 * tick, ProbeAfter: 30 * tick, ProbeTimeout: 30 * tick, ProbeCount: 1, Paced: true}
	leaving := rules.State{Silence: rules.Silence{Stage: rules.Leaving, Why: rules.Idle, Until: at(40)}}
	trace(t, p, leaving, row{now: at(40), with: mute, want: wait(at(30))}, row{now: at(40), with: mute, want: probe})
	trace(t, p, leaving, row{now: at(60), with: mute, want: ifAllowed(closes(rules.Idle))})
	extended := rules.State{Silence: rules.Silence{Stage: rules.Extended, Why: rules.Idle, Until: at(25)}}
	trace(t, rules.Policy{Timeout: 60 * tick, Asks: true}, extended, row{now: at(25), with: mute, want: wait(at(60))}, row{now: at(60), with: mute, want: ask(rules.Idle)})
}

// The user was asked, and then the end moved, or its reason changed. The answer holds.
func TestAnswersHoldUnderANewConfig(t *testing.T) {
	for _, timeout := range []time.Duration{50 * tick, 100 * tick} {
		p := rules.Policy{Timeout: timeout, Asks: true}
		heard := asked(rules.Socket{Heard: at(1), Signs: 1})
		trace(t, p, rules.State{}, row{now: at(60), with: and(heard, answer(rules.NoAnswer, rules.Verdict(70*tick))), want: wait(at(130))})
		trace(t, p, rules.State{}, row{now: at(60), with: and(mute, answer(rules.NoAnswer, rules.Pardon)), want: wait(at(60).Add(timeout))})
		trace(t, p, rules.State{}, row{now: at(60), with: and(sent, answer(rules.NoAnswer, rules.ProbeIt)), want: wait(at(60).Add(timeout))})
	}
	p := rules.Policy{Timeout: 50 * tick, Asks: true}
	trace(t, p, rules.State{}, row{now: at(60), with: and(mute, answer(rules.NoAnswer, rules.Condemn)), want: ask(rules.Idle)})
	trace(t, rules.Policy{Timeout: 50 * tick}, rules.State{}, row{now: at(60), with: and(mute, answer(rules.NoAnswer, rules.Pardon)), want: closes(rules.Idle)})
}

// The connection was touched in its visit, and then the visit took a timeout. Another visit decides about that.
func TestAVisitIsAboutOneSilence(t *testing.T) {
	anew := func(e *rules.Evidence) { e.Anew = true }
	for _, p := range []rules.Policy{{}, {Asks: true}, probing} {
		trace(t, p, rules.State{}, row{now: at(16), with: and(mute, anew), want: wait(at(17))})
		trace(t, p, rules.State{Holds: 1}, row{now: at(16), with: and(stuck(7), anew), want: wait(at(17))})
	}
}

// Probes are gone while a connection has more time since nobody has answered one. Its timeout is longer.
func TestExtendedWithoutProbes(t *testing.T) {
	extended := rules.State{Silence: rules.Silence{Stage: rules.Extended, Why: rules.NoAnswer, Until: at(25)}}
	trace(t, rules.Policy{Timeout: 60 * tick}, extended, row{now: at(25), with: mute, want: wait(at(60))}, row{now: at(60), with: mute, want: closes(rules.Idle)})
}

// The timeout has become longer while the rate does not allow the close.
func TestLeavingUnderALongerTimeout(t *testing.T) {
	p := rules.Policy{Paced: true}
	s := trace(t, p, rules.State{}, row{now: at(16), with: mute, want: ifAllowed(closes(rules.Idle))})
	p.Timeout = 30 * tick
	trace(t, p, s,
		row{now: at(20), with: mute, want: wait(at(30))},
		row{now: at(30), with: mute, want: ifAllowed(closes(rules.Idle))})
}
