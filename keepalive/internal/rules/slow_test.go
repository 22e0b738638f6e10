package rules_test

import (
	"testing"

	"github.com/heartwheel-go/heartwheel/keepalive/internal/rules"
)

// Bytes of a silent peer may wait because this program is slow. What it has taken by now tells.
func TestSlowReader(t *testing.T) {
	reads, touches, arrivals := life(rules.Reads), life(rules.Touches), life(rules.Arrivals)
	socket := func(unread int, taken uint64, received rules.Time) func(e *rules.Evidence) {
		return asked(rules.Socket{Heard: rules.Unknown, Received: received, Unread: unread, Taken: taken})
	}
	read := asked(rules.Socket{Heard: at(8), Received: at(8), Taken: 5})
	// The kernel's clock may have been behind by four ticks.
	behind := func(unread int) func(e *rules.Evidence) {
		return and(arrivals, asked(rules.Socket{Heard: at(12), Received: at(8), Arrived: 5, Unread: unread}))
	}
	since := func(touched rules.Time) func(e *rules.Evidence) {
		return func(e *rules.Evidence) { e.Touched = touched }
	}
	for _, c := range []struct {
		name string
		rows []row
	}{
		{"arrivals are read more slowly than they come, and then all are", []row{
			{now: at(16), with: and(arrivals, socket(1, 3, rules.Unknown)), want: slowUntil(at(32))},
			{now: at(32), with: and(arrivals, socket(0, 8, rules.Unknown)), want: heard(at(32))},
		}},
		{"somebody reads again", []row{
			{now: at(16), with: and(reads, socket(1, 0, rules.Unknown)), want: slowUntil(at(18))},
			{now: at(18), with: and(reads, socket(1, 3, rules.Unknown)), want: slowUntil(at(34))},
		}},
		{"bytes read before the first look tell nothing", []row{
			{now: at(16), with: and(reads, socket(1, 3, rules.Unknown)), want: slowUntil(at(18))},
		}},
		{"nobody reads", []row{
			{now: at(16), with: and(reads, socket(1, 0, at(10))), want: slowUntil(at(18))},
			{now: at(18), with: and(reads, socket(1, 0, at(10))), want: slowUntil(at(20))},
		}},
		{"somebody reads, and nobody touches", []row{
			{now: at(16), with: and(touches, socket(1, 0, rules.Unknown)), want: slowUntil(at(18))},
			{now: at(18), with: and(touches, socket(1, 3, rules.Unknown)), want: slowUntil(at(20))},
		}},
		{"nobody reads what has just come", []row{
			{now: at(16), with: and(touches, socket(1, 0, at(10))), want: slowUntil(at(18))},
			{now: at(18), with: and(touches, socket(1, 0, at(10))), want: slowUntil(at(26))},
		}},
		{"somebody reads what has just come", []row{
			{now: at(16), with: and(touches, socket(1, 0, at(10))), want: slowUntil(at(18))},
			{now: at(18), with: and(touches, socket(1, 3, at(10))), want: slowUntil(at(20))},
		}},
		{"all was read, and the touch may still come", []row{
			{now: at(16), with: and(touches, socket(0, 5, at(10))), want: sparedUntil(at(18))},
			{now: at(18), with: and(touches, socket(0, 5, at(10))), want: sparedUntil(at(20))},
		}},
		{"all was read a timeout ago", []row{{now: at(18), with: and(touches, socket(0, 5, at(2))), want: closes(rules.Idle)}}},
		{"all was read", []row{{now: at(16), with: and(reads, socket(0, 5, at(10))), want: closes(rules.Idle)}}},
		{"it came before the touch, and this program is late", []row{
			{now: at(33), with: and(arrivals, read, dueAt(at(26)), func(e *rules.Evidence) { e.Touched, e.Slack = at(10), tick }), want: closes(rules.Idle)},
		}},
		{"it may have come after the touch, since this program was late then, too", []row{
			{now: at(33), with: and(arrivals, read, dueAt(at(26)), func(e *rules.Evidence) { e.Touched, e.Slack = at(10), tick+1 }), want: heard(at(33))},
		}},
		{"the touch was their arrival, and a late program has read them since", []row{
			{now: at(16), with: behind(1), want: rules.Outcome{Do: rules.Heard, Until: at(12), Spared: true, Slow: true}},
			{now: at(34), with: and(behind(0), since(at(12)), dueAt(at(28))), want: heard(at(34))},
			{now: at(56), with: and(behind(0), since(at(34)), dueAt(at(50))), want: closes(rules.Idle)},
		}},
		{"the touch was their arrival, and they had been read", []row{
			{now: at(16), with: behind(0), want: heard(at(12))},
			{now: at(34), with: and(behind(0), since(at(12)), dueAt(at(28))), want: closes(rules.Idle)},
		}},
		{"they were unread once, and a touch came since", []row{
			{now: at(16), with: behind(1), want: rules.Outcome{Do: rules.Heard, Until: at(12), Spared: true, Slow: true}},
			{now: at(40), with: and(behind(0), since(at(18)), dueAt(at(34))), want: closes(rules.Idle)},
		}},
		{"the user took that time", []row{
			{now: at(34), with: and(arrivals, read, dueAt(at(24)), func(e *rules.Evidence) { e.Touched, e.Begun = at(8), at(29) }), want: closes(rules.Idle)},
			{now: at(34), with: and(arrivals, read, dueAt(at(24)), func(e *rules.Evidence) { e.Touched, e.Begun = at(8), at(29)+1 }), want: heard(at(34))},
		}},
		{"heard of long ago", []row{
			{now: at(16), with: and(arrivals, read, dueAt(at(8))), want: heard(at(8))},
		}},
		{"no look before the deadline", []row{{now: at(10), with: arrivals, want: wait(at(16))}}},
	} {
		t.Run(c.name, func(t *testing.T) { trace(t, rules.Policy{}, rules.State{}, c.rows...) })
	}
}

// A peer that has filled the receive queue can send no more. That is our slowness for as long as the queue is full.
func TestFullQueue(t *testing.T) {
	reads, touches, arrivals := life(rules.Reads), life(rules.Touches), life(rules.Arrivals)
	socket := func(unread int, taken uint64) func(e *rules.Evidence) {
		return asked(rules.Socket{Heard: 0, Received: 0, Arrived: 9, Signs: 9, Unread: unread, Taken: taken, Full: unread >= 5})
	}
	dry := rules.Policy{DryRun: true}
	for _, c := range []struct {
		name   string
		policy rules.Policy
		rows   []row
	}{
		{"for ever", rules.Policy{}, []row{
			{now: at(16), with: and(reads, socket(9, 0)), want: slowUntil(at(32))},
			{now: at(32), with: and(reads, socket(9, 0)), want: slowUntil(at(48))},
			{now: at(48), with: and(reads, socket(9, 0)), want: slowUntil(at(64))},
			{now: at(64), with: and(reads, socket(9, 0)), want: slowUntil(at(80))},
			{now: at(80), with: and(reads, socket(9, 0)), want: slowUntil(at(96))},
		}},
		{"read, and nobody touches, and the peer has a timeout", rules.Policy{}, []row{
			{now: at(16), with: and(touches, socket(9, 0)), want: slowUntil(at(32))},
			{now: at(32), with: and(touches, socket(9, 0)), want: slowUntil(at(48))},
			{now: at(48), with: and(touches, socket(0, 9)), want: sparedUntil(at(64))},
			{now: at(64), with: and(touches, socket(0, 9)), want: closes(rules.Idle)},
		}},
		{"read past us, and the peer has a timeout", rules.Policy{}, []row{
			{now: at(16), with: and(reads, socket(9, 0)), want: slowUntil(at(32))},
			{now: at(32), with: and(reads, socket(0, 9)), want: sparedUntil(at(48))},
			{now: at(48), with: and(reads, socket(0, 9)), want: closes(rules.Idle)},
		}},
		{"arrivals, and all are read", rules.Policy{}, []row{
			{now: at(16), with: and(arrivals, socket(9, 0)), want: slowUntil(at(32))},
			{now: at(32), with: and(arrivals, socket(0, 9)), want: heard(at(32))},
		}},
		{"some is read, and the rest never", rules.Policy{}, []row{
			{now: at(16), with: and(arrivals, socket(9, 0)), want: slowUntil(at(32))},
			{now: at(32), with: and(arrivals, socket(1, 8)), want: slowUntil(at(48))},
			{now: at(48), with: and(arrivals, socket(1, 8)), want: slowUntil(at(50))},
			{now: at(50), with: and(arrivals, socket(1, 8)), want: slowUntil(at(52))},
			{now: at(52), with: and(arrivals, socket(1, 8)), want: slowUntil(at(54))},
			{now: at(54), with: and(arrivals, socket(1, 8)), want: closes(rules.Idle)},
		}},
		{"no message among more than can be read", rules.Policy{}, []row{
			{now: at(16), with: and(touches, socket(9, 1)), want: slowUntil(at(32))},
			{now: at(32), with: and(touches, socket(9, 2)), want: slowUntil(at(48))},
			{now: at(48), with: and(touches, socket(9, 3)), want: slowUntil(at(64))},
			{now: at(64), with: and(touches, socket(9, 4)), want: slowUntil(at(80))},
			{now: at(80), with: and(touches, socket(9, 5)), want: closes(rules.Idle)},
		}},
		{"a dry run", dry, []row{
			{now: at(16), with: and(reads, socket(9, 0)), want: slowUntil(at(32))},
			{now: at(32), with: and(reads, socket(0, 9)), want: sparedUntil(at(48))},
			{now: at(48), with: and(reads, socket(0, 9)), want: counted(wait(at(64)), rules.Idle)},
			{now: at(64), with: and(reads, mute), want: wait(at(80))},
		}},
		{"an answer behind it", probing, []row{
			{now: at(8), with: and(reads, mute, sent), want: wait(at(12))},
			{now: at(12), with: and(touches, socket(9, 0)), want: slowUntil(at(20))},
			{now: at(20), with: and(touches, socket(9, 0)), want: slowUntil(at(28))},
		}},
		{"nothing read", rules.Policy{Timeout: 1000 * tick, ReadIdle: 6 * tick}, []row{
			{now: at(60), with: and(reads, socket(9, 0)), want: rules.Outcome{Do: rules.Wait, Until: at(1000), Spared: true, Slow: true}},
		}},
	} {
		t.Run(c.name, func(t *testing.T) { trace(t, c.policy, rules.State{}, c.rows...) })
	}
}

// Bytes may wait where nobody sees them. A program that does not read has three timeouts more.
func TestHiddenBytes(t *testing.T) {
	hidden := func(e *rules.Evidence) { mute(e); e.Socket.Hidden = true }
	trace(t, rules.Policy{}, rules.State{},
		row{now: at(16), with: hidden, want: sparedUntil(at(32))},
		row{now: at(32), with: hidden, want: sparedUntil(at(48))},
		row{now: at(48), with: hidden, want: sparedUntil(at(64))},
		row{now: at(64), with: hidden, want: closes(rules.Idle)})
	trace(t, rules.Policy{}, rules.State{},
		row{now: at(16), with: hidden, want: sparedUntil(at(32))},
		row{now: at(32), with: mute, want: closes(rules.Idle)}) // it reads, and there is nothing
	unfinished := and(life(rules.Touches), hidden, func(e *rules.Evidence) { e.Socket.Received = at(9) })
	trace(t, rules.Policy{}, rules.State{}, row{now: at(16), with: unfinished, want: sparedUntil(at(32))})
	trace(t, rules.Policy{DryRun: true}, rules.State{Silence: rules.Silence{Stage: rules.Ignored, Until: at(16)}},
		row{now: at(16), with: hidden, want: wait(at(32))})
}

// Nobody touches for an answer among arrivals, so the socket is asked four times within ProbeTimeout.
// The timeout became longer while a program had more time to read. That time ends when it was to end, and then the timeout counts.
func TestMoreTimeUnderALongerTimeout(t *testing.T) {
	s := rules.State{Silence: rules.Silence{Rounds: 3, Slow: true, Until: at(10)}}
	dead := and(life(rules.Arrivals), asked(rules.Socket{Heard: at(1), Received: at(1), Arrived: 5, Taken: 5}))
	trace(t, rules.Policy{Timeout: 60 * tick}, s, row{now: at(10), with: dead, want: heard(at(1))})
	mute := and(life(rules.Touches), mute)
	trace(t, rules.Policy{Timeout: 60 * tick}, s,
		row{now: at(10) - 1, with: mute, want: wait(at(10))},
		row{now: at(10), with: mute, want: wait(at(60))},
		row{now: at(60), with: mute, want: closes(rules.Idle)})
}

func TestAnswersAmongArrivalsAreSoughtOften(t *testing.T) {
	for timeout, next := range map[rules.Time]rules.Time{at(8): at(10), at(2): at(9)} {
		p := rules.Policy{ProbeAfter: 8 * tick, ProbeTimeout: timeout.Sub(0), ProbeCount: 1}
		trace(t, p, rules.State{}, row{now: at(8), with: and(life(rules.Arrivals), mute, sent), want: wait(next)})
	}
}
