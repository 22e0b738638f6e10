package rules_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/heartwheel-go/heartwheel/keepalive/internal/rules"
)

func TestEdges(t *testing.T) {
	reached := func(out rules.Outcome, from, to int) rules.Outcome {
		out.Edges = [2]int{from, to}
		return out
	}
	near := func(out rules.Outcome) rules.Outcome {
		out.NearMiss = true
		return out
	}
	s := func(edge uint8) rules.State { return rules.State{Silence: rules.Silence{Edge: edge}} }
	dry := rules.Policy{Advises: true, DryRun: true}
	advises := rules.Policy{Advises: true}
	edge := rules.Time(0).Add
	for _, c := range []struct {
		name   string
		policy rules.Policy
		state  rules.State
		rows   []row
	}{
		{"each edge", advises, s(0), []row{
			{now: 0, want: wait(at(2))},
			{now: at(2), want: reached(wait(at(4)), 0, 1)},
			{now: at(2), want: reached(wait(at(4)), 1, 1)},
			{now: at(12), want: reached(wait(edge(12800*time.Millisecond)), 1, 6)},
			{now: at(14) - 1, want: reached(wait(at(14)), 6, 7)},
			{now: at(16), with: mute, want: reached(closes(rules.Idle), 7, 9)},
		}},
		{"none of it", rules.Policy{}, s(0), []row{{now: at(15), want: wait(at(16))}}},
		{"ended before the last fifth", advises, s(6), []row{{now: at(13), with: touchedAt(at(13)), want: wait(at(15))}}},
		{"nearly", advises, s(7), []row{{now: at(13), with: touchedAt(at(13)), want: near(wait(at(15)))}}},
		{"just before the end", advises, s(8), []row{{now: at(15), with: touchedAt(at(15)), want: near(wait(at(17)))}}},
		{"too late", advises, s(9), []row{{now: at(17), with: touchedAt(at(17)), want: wait(at(19))}}},
		{"the socket has heard", advises, s(8), []row{{now: at(16), with: asked(rules.Socket{Heard: at(15)}), want: near(reached(heard(at(15)), 8, 9))}}},
		{"beyond the timeout", dry, s(9), []row{
			{now: at(20), with: mute, want: counted(reached(wait(at(24)), 9, 10), rules.Idle)},
			{now: at(32), with: mute, want: reached(wait(at(36)), 10, 13)},
			{now: at(36), with: mute, want: reached(wait(at(52)), 13, 13)}, // that was the last
		}},
		{"held", advises, rules.State{Holds: 1, Silence: rules.Silence{Edge: 3}}, []row{{now: at(15), want: reached(wait(at(16)), 3, 3)}}},
		{"for ever", rules.Policy{Advises: true, Timeout: forever}, s(9), []row{{now: 0, want: reached(wait(rules.Never), 9, 9)}}},
	} {
		t.Run(c.name, func(t *testing.T) {
			if c.name == "the socket has heard" { // 16 of 16 were reached: no near miss
				c.rows[0].want.NearMiss = false
			}
			trace(t, c.policy, c.state, c.rows...)
		})
	}
	require.Equal(t, 2*tick, rules.EdgeOf(16*tick, 0))
	require.Equal(t, 32*tick, rules.EdgeOf(16*tick, len(rules.Edges)-1))
	require.Equal(t, forever, rules.EdgeOf(forever, len(rules.Edges)-1))
	require.Zero(t, rules.EdgeOf(0, 3))
}
