package rules_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/heartwheel-go/heartwheel/keepalive/internal/rules"
)

func TestDeadline(t *testing.T) {
	plain := rules.Policy{Tick: tick, Timeout: 16 * tick}
	probes := rules.Policy{Tick: tick, Timeout: 16 * tick, ProbeAfter: 8 * tick, ProbeTimeout: 4 * tick, ProbeCount: 2}
	age := rules.Policy{Tick: tick, Timeout: 16 * tick, MaxAge: 20 * tick, MaxGrace: 3 * tick}
	long := rules.Policy{Tick: tick, Timeout: forever, ProbeAfter: forever - 2, ProbeTimeout: forever, ProbeCount: 100, MaxAge: forever, MaxGrace: forever}
	pressed := rules.Policy{Tick: tick, Timeout: 16 * tick, Pressed: 4 * tick}
	hurried := probes
	hurried.Pressed = 4 * tick
	silence := func(q rules.Silence) rules.State { return rules.State{Silence: q} }
	old := rules.State{Age: rules.Age{From: 1}}
	for _, c := range []struct {
		name    string
		p       rules.Policy
		s       rules.State
		touched rules.Time
		heard   bool
		now     rules.Time
		want    rules.Time
		why     rules.Reason
	}{
		{"a timeout", plain, rules.State{}, at(3), true, at(4), at(19), rules.Idle},
		{"its own", plain, rules.State{Own: 5 * tick}, at(3), true, at(4), at(8), rules.Idle},
		{"held", plain, rules.State{Holds: 1}, at(3), true, at(4), rules.Never, 0},
		{"held, and old", age, rules.State{Holds: 1, Age: rules.Age{From: 1}}, at(3), true, at(4), at(23) + 1, rules.MaxAge},
		{"condemned", plain, rules.State{}.Condemned(rules.Drain), at(3), true, at(4), at(4), rules.Drain},
		{"ignored", plain, silence(rules.Silence{Stage: rules.Ignored, Why: rules.Idle, Until: at(32)}), 0, false, at(20), rules.Never, 0},
		{"ignored, and heard since", plain, silence(rules.Silence{Stage: rules.Ignored, Why: rules.Idle, Until: at(32)}), at(19), true, at(20), at(35), rules.Idle},
		{"extended", plain, silence(rules.Silence{Stage: rules.Extended, Why: rules.Idle, Until: at(32)}), 0, false, at(20), at(32), rules.Idle},
		{"the rate allows no more", plain, silence(rules.Silence{Stage: rules.Leaving, Why: rules.Idle, Until: at(21)}), 0, false, at(20), at(21), rules.Idle},
		{"first message", plain, silence(rules.Silence{Stage: rules.Opened, Why: rules.FirstMessage, Until: at(5)}), 0, false, at(2), at(5), rules.FirstMessage},
		{"silence before a probe", hurried, rules.State{}, 0, true, 0, at(4), rules.Idle},
		{"all probes to come", probes, rules.State{}, 0, true, 0, at(16), rules.NoAnswer},
		{"one probe to come", probes, silence(rules.Silence{Stage: rules.Probing, Probes: 1, Why: rules.NoAnswer, Until: at(12)}), 0, false, at(9), at(16), rules.NoAnswer},
		{"no probe to come", probes, silence(rules.Silence{Stage: rules.Probing, Probes: 2, Why: rules.NoAnswer, Until: at(16)}), 0, false, at(13), at(16), rules.NoAnswer},
		{"the last probe", probes, silence(rules.Silence{Stage: rules.Probing, Probes: 255, Why: rules.NoAnswer, Until: at(9)}), 0, false, at(6), at(9), rules.NoAnswer},
		{"silence before age", age, old, 0, true, at(1), at(16), rules.Idle},
		{"age before silence", age, old, at(10), true, at(11), at(23) + 1, rules.MaxAge},
		{"both at once", age, rules.State{Age: rules.Age{From: at(1)}}, at(8), true, at(9), at(24), rules.MaxAge},
		{"told", age, rules.State{Age: rules.Age{From: 1, Told: at(25)}}, at(24), true, at(26), at(28), rules.MaxAge},
		{"old enough in a dry run", age, rules.State{Age: rules.Age{From: 1, Told: at(21)}, AgeOver: true}, at(24), true, at(26), at(40), rules.Idle},
		{"to leave", age, old.Warned(rules.Shed), at(8), true, at(9), at(12), rules.Shed},
		{"to leave, and told", age, rules.State{Age: rules.Age{From: 1, Told: at(9)}}.Warned(rules.Shed), at(8), true, at(10), at(12), rules.Shed},
		{"to leave, and silent before", age, rules.State{Age: rules.Age{From: 1, Told: at(15)}}.Warned(rules.Shed), 0, true, at(15), at(16), rules.Idle},
		{"pressure", pressed, rules.State{}, 0, true, 0, at(4), rules.Idle},
		{"for ever", long, rules.State{Age: rules.Age{From: 1}}, 5, true, 5, rules.Never, rules.NoAnswer},
		{"at the end of time", plain, rules.State{}, rules.Never - 1, true, rules.Never - 1, rules.Never, rules.Idle},
	} {
		e := rules.Evidence{Touched: c.touched, Quiet: !c.heard, Pressure: 1}
		end, why := rules.Deadline(&c.p, c.s, e, c.now)
		require.Equal(t, c.want, end, "%s: %v", c.name, time.Duration(end))
		require.Equal(t, c.why, why, c.name)
	}

	// The first probe is early by a draw, and the last answer has as much more time.
	drawn := rules.Evidence{Quiet: true, Draw: 0.5}
	end, _ := rules.Deadline(&probes, rules.State{}, drawn, 0)
	require.Equal(t, at(16), end)
	end, _ = rules.Deadline(&probes, silence(rules.Silence{Stage: rules.Probing, Probes: 2, Why: rules.NoAnswer, Until: at(16)}), drawn, at(13))
	require.Equal(t, at(16), end)
}
