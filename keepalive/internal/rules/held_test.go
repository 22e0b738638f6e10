package rules_test

import (
	"testing"

	"github.com/heartwheel-go/heartwheel/keepalive/internal/rules"
)

// stuck is the socket of a peer that has taken so many bytes, and not all.
func stuck(acked uint64) func(e *rules.Evidence) {
	return asked(rules.Socket{Heard: rules.Unknown, Received: rules.Unknown, Sent: rules.Unknown, Acked: acked, Pending: true})
}

func TestHeld(t *testing.T) {
	asks, paced := rules.Policy{Asks: true}, rules.Policy{Paced: true}
	probes := rules.Policy{ProbeCount: 2, ProbeAfter: 8 * tick, ProbeTimeout: 4 * tick}
	probed := probes
	probed.Asks = true
	for _, c := range []struct {
		name   string
		policy rules.Policy
		rows   []row
	}{
		{name: "the peer takes nothing", rows: []row{
			{now: at(16), with: stuck(7), want: wait(at(32))},
			{now: at(20), with: stuck(7), want: wait(at(32))},
			{now: at(32), with: stuck(7), want: closes(rules.Idle)},
		}},
		{name: "the peer is slow", rows: []row{
			{now: at(16), with: stuck(7), want: wait(at(32))},
			{now: at(32), with: stuck(8), want: wait(at(48))},
			{now: at(48), with: stuck(9), want: wait(at(64))},
			{now: at(64), with: mute, want: wait(at(80))},
			{now: at(80), with: stuck(9), want: wait(at(96))},
			{now: at(96), with: stuck(9), want: closes(rules.Idle)},
		}},
		{name: "as many bytes are acknowledged as had arrived", policy: paced, rows: []row{
			{now: at(16), with: and(stuck(7), asked(rules.Socket{Heard: rules.Unknown, Received: rules.Unknown, Sent: rules.Unknown, Signs: 7})), want: wait(at(32))},
			{now: at(32), with: stuck(7), want: wait(at(48))},
		}},
		{name: "it is heard, and stuck again", rows: []row{
			{now: at(16), with: stuck(7), want: wait(at(32))},
			{now: at(20), with: touchedAt(at(20)), want: wait(at(36))},
			{now: at(36), with: stuck(7), want: wait(at(52))},
		}},
		{name: "nobody probes a peer that takes nothing", policy: probes, rows: []row{
			{now: at(16), with: stuck(7), want: wait(at(32))},
			{now: at(32), with: stuck(7), want: closes(rules.Idle)},
		}},
		{name: "the user extends it", policy: asks, rows: []row{
			{now: at(16), with: stuck(7), want: wait(at(32))},
			{now: at(32), with: stuck(7), want: rules.Outcome{Do: rules.Ask, Why: rules.Idle}},
			{now: at(32), with: and(stuck(7), answer(rules.Idle, rules.Verdict(3*tick))), want: wait(at(35))},
			{now: at(35), with: stuck(7), want: rules.Outcome{Do: rules.Ask, Why: rules.Idle}},
			{now: at(35), with: and(stuck(7), answer(rules.Idle, rules.Condemn)), want: closes(rules.Idle)},
		}},
		{name: "nobody asks before its time is over", policy: asks, rows: []row{
			{now: at(16), with: and(stuck(7), life(rules.Arrivals)), want: wait(at(32))},
			{now: at(32), with: and(stuck(7), life(rules.Arrivals), answer(rules.Idle, rules.Verdict(50*tick))), want: wait(at(82))},
			{now: at(48), with: and(stuck(7), life(rules.Arrivals)), want: wait(at(82))},
		}},
		{name: "the user has it probed", policy: probed, rows: []row{
			{now: at(16), with: stuck(7), want: wait(at(32))},
			{now: at(32), with: and(stuck(7), answer(rules.Idle, rules.ProbeIt)), want: probe},
			{now: at(32), with: and(stuck(7), sent, answer(rules.Idle, rules.ProbeIt)), want: wait(at(36))},
			{now: at(36), with: stuck(7), want: closes(rules.NoAnswer)},
		}},
		{name: "the user ignores it", policy: asks, rows: []row{
			{now: at(16), with: stuck(7), want: wait(at(32))},
			{now: at(32), with: and(stuck(7), answer(rules.Idle, rules.Pardon)), want: wait(at(48))},
			{now: at(48), with: stuck(7), want: wait(at(64))},
			{now: at(64), with: stuck(8), want: wait(at(80))},
		}},
		{name: "the rate does not allow it", policy: paced, rows: []row{
			{now: at(16), with: stuck(7), want: wait(at(32))},
			{now: at(32), with: stuck(7), want: ifAllowed(closes(rules.Idle))},
			{now: at(33), with: stuck(7), want: ifAllowed(closes(rules.Idle))},
		}},
		{name: "it takes something before the rate allows it", policy: paced, rows: []row{
			{now: at(16), with: stuck(7), want: wait(at(32))},
			{now: at(32), with: stuck(7), want: ifAllowed(closes(rules.Idle))},
			{now: at(33), with: stuck(8), want: wait(at(49))},
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			trace(t, c.policy, rules.State{Holds: 1}, c.rows...)
		})
	}
}
