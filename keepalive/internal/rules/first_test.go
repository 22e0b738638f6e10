package rules_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/heartwheel-go/heartwheel/keepalive/internal/rules"
)

func TestFirstMessage(t *testing.T) {
	p := rules.Policy{Tick: tick, Timeout: 16 * tick, First: 5 * tick}
	for _, c := range []struct {
		name string
		born rules.Time
		rows []row
	}{
		{"nothing came", 0, []row{
			{now: at(5) - 1, want: wait(at(5))},
			{now: at(5), with: mute, want: closes(rules.FirstMessage)},
		}},
		{"opened later", at(100), []row{
			{now: at(105) - 1, want: wait(at(105))},
			{now: at(105), with: mute, want: closes(rules.FirstMessage)},
		}},
		{"a touch ends it", 0, []row{
			{now: at(5), with: touchedAt(at(1)), want: wait(at(17))},
			{now: at(17), with: and(mute, func(e *rules.Evidence) { e.Touched = at(1) }), want: closes(rules.Idle)},
		}},
		{"the socket has heard", 0, []row{
			{now: at(5), with: asked(rules.Socket{Heard: at(1), Signs: 1}), want: heard(at(1))},
		}},
		{"looked at late, and nothing came", 0, []row{ // the kernel calls the beginning an arrival
			{now: at(15), with: and(life(rules.Arrivals), asked(rules.Socket{Heard: rules.Unknown, Received: 0})), want: closes(rules.FirstMessage)},
		}},
		{"bytes are no touch", 0, []row{
			{now: at(5), with: and(life(rules.Touches), asked(rules.Socket{Heard: at(1), Received: 0, Signs: 1})), want: closes(rules.FirstMessage)},
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := rules.Open(&p, &rules.Evidence{Born: c.born})
			require.Equal(t, rules.Never, rules.Limit(&p, s, &rules.Evidence{Born: c.born}))
			trace(t, p, s, c.rows...)
		})
	}
	kernel, acks := life(rules.Arrivals), life(rules.ReadsWrite)
	short := rules.Policy{Tick: tick, Timeout: 4 * tick, First: 10 * tick}
	trace(t, short, rules.Open(&short, &rules.Evidence{}), row{now: at(4), with: mute, want: wait(at(10))})
	trace(t, short, rules.Open(&short, &rules.Evidence{}), // nobody touches for the first message, and the timeout begins with it
		row{now: at(4), with: and(kernel, mute), want: wait(at(8))},
		row{now: at(8), with: and(kernel, asked(rules.Socket{Heard: at(5), Signs: 1})), want: heard(at(5))},
		row{now: at(9), with: and(kernel, asked(rules.Socket{Heard: at(5), Signs: 1}), func(e *rules.Evidence) { e.Touched = at(5) }), want: closes(rules.Idle)})
	trace(t, short, rules.Open(&short, &rules.Evidence{}),
		row{now: at(8), with: and(kernel, mute), want: wait(at(10))},
		row{now: at(10), with: and(kernel, mute), want: closes(rules.FirstMessage)})

	trace(t, short, rules.Open(&short, &rules.Evidence{}),
		row{now: at(4), with: and(acks, mute), want: wait(at(8))},
		row{now: at(8), with: and(acks, asked(rules.Socket{Heard: at(5), Signs: 1})), want: heard(at(5))})
	changed := func(e *rules.Evidence) { e.Changed = true }
	trace(t, short, rules.Open(&short, &rules.Evidence{}), // the change is a touch, and nobody is slow
		row{now: at(2), with: and(changed, asked(rules.Socket{Heard: at(1), Signs: 1, Unread: 1})), want: rules.Outcome{Do: rules.Heard, Until: at(2)}})
	trace(t, short, rules.Open(&short, &rules.Evidence{}),
		row{now: at(2), with: and(changed, mute), want: wait(at(10))},
		row{now: at(2), with: and(changed, kernel, mute), want: wait(at(6))})

	p.First = forever
	s := rules.Open(&p, &rules.Evidence{Born: 7})
	trace(t, p, s, row{now: rules.Never - 1, want: wait(rules.Never)})
}

// The first message came while the user was asked about it, and the user changed the connection. That was a touch.
func TestFirstMessageDuringTheQuestion(t *testing.T) {
	p := rules.Policy{Timeout: 60 * tick, First: 10 * tick, Asks: true}
	changed := and(life(rules.Touches), answer(rules.FirstMessage, rules.Verdict(5*tick)), func(e *rules.Evidence) { e.Changed = true })
	opened := rules.State{Silence: rules.Silence{Stage: rules.Opened, Why: rules.FirstMessage, Until: at(10)}}
	trace(t, p, opened, row{now: at(10), with: and(asked(rules.Socket{Heard: at(10), Signs: 1}), changed), want: rules.Outcome{Do: rules.Heard, Until: at(10)}})
	trace(t, p, opened, row{now: at(10), with: and(mute, changed), want: wait(at(15))})
}

// After an update, the first message has its time from the opening. What is fresh goes
// by the new policy, and zero means Timeout.
func TestFirstMessageAfterUpdate(t *testing.T) {
	p := rules.Policy{Tick: tick, Timeout: 16 * tick, First: 5 * tick}
	s := rules.Open(&p, &rules.Evidence{})
	p.First = 0
	s = rules.Adapt(&p, s, &rules.Evidence{}, at(1))
	trace(t, p, s,
		row{now: at(4), want: wait(at(5))},
		row{now: at(5), with: and(life(rules.Touches), asked(rules.Socket{Received: at(3), Taken: 1})), want: sparedUntil(at(7))},
		row{now: at(7), with: and(life(rules.Touches), mute), want: closes(rules.FirstMessage)})
}

// What came was no message within its time. That does not change because the rate has to be asked.
func TestFirstMessageAboveTheRate(t *testing.T) {
	p := rules.Policy{First: 5 * tick, Paced: true}
	came := and(life(rules.Touches), asked(rules.Socket{Heard: at(3), Signs: 1, Received: at(3), Taken: 1}))
	trace(t, p, rules.Open(&p, &rules.Evidence{}),
		row{now: at(9), with: came, want: ifAllowed(closes(rules.FirstMessage))},
		row{now: at(9), with: and(came, retryAt(at(13))), want: wait(at(13))})
}

func TestAdapt(t *testing.T) {
	condemned := rules.State{}.Condemned(rules.Drain)
	doomed := rules.State{Doom: rules.Doom{Why: rules.MaxAge}}
	silence := func(q rules.Silence) rules.State { return rules.State{Silence: q} }
	dry := rules.Policy{DryRun: true}
	for _, c := range []struct {
		name       string
		p          rules.Policy
		from, want rules.State
	}{
		{"nothing", rules.Policy{}, rules.State{}, rules.State{}},
		{"an age begins", rules.Policy{MaxAge: tick}, rules.State{}, rules.State{Age: rules.Age{From: at(50)}}},
		{"an age goes on", rules.Policy{MaxAge: tick}, rules.State{Age: rules.Age{From: 1}}, rules.State{Age: rules.Age{From: 1}}},
		{"told", rules.Policy{MaxAge: tick}, rules.State{Age: rules.Age{From: 1, Told: 2}}, rules.State{Age: rules.Age{From: 1, Told: 2}}},
		{"counted in a dry run", rules.Policy{MaxAge: tick}, rules.State{Age: rules.Age{From: 1, Told: 2}, AgeOver: true}, rules.State{Age: rules.Age{From: 1, Told: 2}}},
		{"it may become older", rules.Policy{MaxAge: 50 * tick}, rules.State{Age: rules.Age{From: 1, Told: 2}, AgeOver: true}, rules.State{Age: rules.Age{From: 1}}},
		{"no age any more", rules.Policy{}, rules.State{Age: rules.Age{From: 1, Told: 2}}, rules.State{}},
		{"rates begin", rules.Policy{MinBytes: 1}, rules.State{}, rules.State{Rates: rules.Rates{Began: at(50), Next: at(60)}}},
		{"rates go on", rules.Policy{MinBeat: 1}, rules.State{Rates: rules.Rates{Next: 5, TooSlow: 1}}, rules.State{Rates: rules.Rates{Next: 5, TooSlow: 1}}},
		{"rates end", rules.Policy{}, rules.State{Rates: rules.Rates{Next: 5, TooSlow: 1}}, rules.State{}},
		{"read idle is looked at anew", rules.Policy{ReadIdle: 1}, rules.State{Idles: rules.Idles{At: 5, Spent: [2]rules.Time{1, 2}}}, rules.State{}},
		{"ignored by the policy before", rules.Policy{}, silence(rules.Silence{Stage: rules.Ignored, Why: rules.Idle, Until: 5}), silence(rules.Silence{})},
		{"extended", rules.Policy{}, silence(rules.Silence{Stage: rules.Extended, Until: 5}), silence(rules.Silence{Stage: rules.Extended, Until: 5})},
		{"leaving", rules.Policy{}, silence(rules.Silence{Stage: rules.Leaving, Until: 5}), silence(rules.Silence{Stage: rules.Leaving, Until: at(50)})},
		{"leaving, and the program is slow", rules.Policy{}, silence(rules.Silence{Stage: rules.Leaving, Slow: true, Until: 5}), silence(rules.Silence{Stage: rules.Leaving, Slow: true, Until: 5})},
		{"leaving, and a dry run", dry, silence(rules.Silence{Stage: rules.Leaving, Until: 5}), silence(rules.Silence{})},
		{"probes are gone", rules.Policy{}, silence(rules.Silence{Stage: rules.Probing, Probes: 1, Rounds: 2, Why: rules.NoAnswer, Until: 5}), silence(rules.Silence{Rounds: 2})},
		{"probes are gone, and it waits", rules.Policy{}, silence(rules.Silence{Stage: rules.Leaving, Why: rules.NoAnswer, Until: 5}), silence(rules.Silence{})},
		{"the last probe is answered", rules.Policy{}, silence(rules.Silence{Stage: rules.Probing, Probes: 255, Until: 5}), silence(rules.Silence{Stage: rules.Probing, Probes: 255, Until: 5})},
		{"condemned, and a dry run", dry, doomed, rules.State{}},
		{"condemned", rules.Policy{}, doomed, doomed},
		{"drained, and a dry run", dry, condemned, condemned},
		{"to leave, and no age any more", dry, rules.State{Age: rules.Age{From: 1, Told: 2}}.Warned(rules.Shed), rules.State{Age: rules.Age{From: 1, Told: 2}}.Warned(rules.Shed)},
	} {
		require.Equal(t, c.want, rules.Adapt(&c.p, c.from, &rules.Evidence{}, at(50)), c.name)
	}
}

// A policy that begins later finds nothing of the opening.
func TestOpeningWithoutPoliciesIsNotRemembered(t *testing.T) {
	p := rules.Policy{Tick: tick, Timeout: 16 * tick}
	require.Zero(t, rules.Open(&p, &rules.Evidence{Born: at(3)}))
}
