package rules_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/heartwheel-go/heartwheel/keepalive/internal/rules"
)

func TestEviction(t *testing.T) {
	p := rules.Policy{EvictIdle: 3 * tick}
	dry := p
	dry.DryRun = true
	for _, c := range []struct {
		name   string
		policy rules.Policy
		holds  int32
		row    row
	}{
		{"evicted", p, 0, row{now: at(5), with: mute, want: closes(rules.Evicted)}},
		{"not idle for long enough any more", rules.Policy{EvictIdle: 30 * tick}, 0, row{now: at(5), with: mute, want: wait(at(16))}},
		{"touched meanwhile", p, 0, row{now: at(5), with: touchedAt(at(5)), want: wait(at(21))}},
		{"held", p, 1, row{now: at(5), want: heard(at(5))}},
		{"heard", p, 0, row{now: at(5), with: asked(rules.Socket{Heard: at(2) + 1}), want: heard(at(2) + 1)}},
		{"heard long ago", p, 0, row{now: at(5), with: asked(rules.Socket{Heard: at(2)}), want: closes(rules.Evicted)}},
		{"heard, but not touched", p, 0, row{now: at(5), with: and(life(rules.Touches), asked(rules.Socket{Heard: at(5)})), want: closes(rules.Evicted)}},
		{"bytes wait", p, 0, row{now: at(5), with: asked(rules.Socket{Unread: 1}), want: wait(at(16))}},
		{"dry run", dry, 0, row{now: at(5), with: mute, want: counted(wait(at(16)), rules.Evicted)}},
		{"no pace", rules.Policy{EvictIdle: 3 * tick, Paced: true}, 0, row{now: at(5), with: mute, want: closes(rules.Evicted)}},
		{"at any time", rules.Policy{}, 0, row{now: 0, with: asked(rules.Socket{}), want: closes(rules.Evicted)}},
		{"never idle enough", rules.Policy{EvictIdle: forever}, 0, row{now: at(5), with: asked(rules.Socket{}), want: wait(at(16))}},
		{"touched, and due again for something else", p, 0, row{now: at(5), with: and(mute, func(e *rules.Evidence) { e.Touched, e.Quiet = at(4), false }), want: wait(at(20))}},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := trace(t, c.policy, rules.State{Evicted: true, Holds: c.holds}, c.row)
			require.False(t, s.Evicted, "once")
		})
	}
}
