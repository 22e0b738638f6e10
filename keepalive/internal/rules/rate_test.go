package rules_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/heartwheel-go/heartwheel/keepalive/internal/rules"
)

func TestRates(t *testing.T) {
	beats := func(n uint32) func(e *rules.Evidence) {
		return and(asked(rules.Socket{}), func(e *rules.Evidence) { e.Beats = n })
	}
	bytes := func(arrived uint64, unread int) func(e *rules.Evidence) {
		return asked(rules.Socket{Arrived: arrived, Unread: unread})
	}
	lost := func(seconds uint16) func(e *rules.Evidence) { return func(e *rules.Evidence) { e.Lost = seconds } }
	many := rules.Policy{Timeout: 1000 * tick, MinBeat: 2 * tick, Strikes: 2}
	slow := rules.Policy{Timeout: 1000 * tick, MinBytes: 10, Strikes: 2}
	once, dry := slow, many
	once.Strikes = 1
	dry.DryRun = true
	slowDry := slow
	slowDry.DryRun = true
	quiet := wait(at(1000))
	for _, c := range []struct {
		name   string
		policy rules.Policy
		rows   []row
	}{
		{"the window is open", many, []row{{now: at(10) - 1, want: quiet}}},
		{"as many as may be", many, []row{{now: at(10), with: beats(6), want: quiet}, {now: at(20), with: beats(12), want: quiet}, {now: at(30), with: beats(18), want: quiet}}},
		{"too many", many, []row{{now: at(10), with: beats(7), want: quiet}, {now: at(20), with: beats(14), want: ends(rules.TooMany)}}},
		{"bytes wait, and the window has had its strike", many, []row{
			{now: at(10), with: and(bytes(0, 1), func(e *rules.Evidence) { e.Beats = 7 }), want: quiet},
			{now: at(11), with: and(bytes(0, 1), func(e *rules.Evidence) { e.Beats = 7 }), want: quiet},
		}},
		{"bytes wait, and one burst is one strike", many, []row{
			{now: at(10), with: and(bytes(0, 1), func(e *rules.Evidence) { e.Beats = 30 }), want: quiet},
			{now: at(20), with: and(bytes(0, 1), func(e *rules.Evidence) { e.Beats = 30 }), want: quiet},
			{now: at(30), with: and(bytes(0, 0), func(e *rules.Evidence) { e.Beats = 30 }), want: quiet},
		}},
		{"bytes wait, and each window has a burst", many, []row{
			{now: at(10), with: and(bytes(0, 1), func(e *rules.Evidence) { e.Beats = 30 }), want: quiet},
			{now: at(20), with: and(bytes(0, 1), func(e *rules.Evidence) { e.Beats = 60 }), want: ends(rules.TooMany)},
		}},
		{"not in a row", many, []row{{now: at(10), with: beats(7), want: quiet}, {now: at(20), with: beats(13), want: quiet}, {now: at(30), with: beats(20), want: quiet}}},
		{"a late look", many, []row{{now: at(14), with: beats(8), want: quiet}, {now: at(24), with: beats(8), want: quiet}}},
		{"after a stall, beats come that were sent in it", many, []row{
			{now: at(10), with: beats(7), want: quiet},
			{now: at(20), with: and(beats(60), lost(93)), want: quiet},
			{now: at(30), with: and(beats(67), lost(93)), want: quiet},
			{now: at(40), with: and(beats(74), lost(93)), want: ends(rules.TooMany)},
		}},
		{"a stall excuses what fits into it", many, []row{
			{now: at(10), with: beats(7), want: quiet},
			{now: at(20), with: and(beats(60), lost(92)), want: ends(rules.TooMany)},
		}},
		{"the seconds lost run over", many, []row{
			{now: at(10), with: and(beats(30), lost(50)), want: quiet},
			{now: at(20), with: and(beats(60), lost(50)), want: quiet},
			{now: at(30), with: and(beats(65), lost(50)), want: quiet},
			{now: at(40), with: and(beats(125), lost(1<<16-1)), want: quiet},
			{now: at(50), with: and(beats(185), lost(110)), want: quiet},
		}},
		{"beats that waited are read in many windows", many, []row{
			{now: at(10), with: and(and(beats(20), lost(240)), bytes(0, 1)), want: quiet},
			{now: at(20), with: and(and(beats(40), lost(240)), bytes(0, 1)), want: quiet},
			{now: at(30), with: and(and(beats(60), lost(240)), bytes(0, 1)), want: quiet},
			{now: at(40), with: and(and(beats(120), lost(240)), bytes(0, 1)), want: quiet},
			{now: at(50), with: and(beats(140), lost(240)), want: quiet},
		}},
		{"bytes always wait: a stall excuses nobody for ever", many, []row{
			{now: at(10), with: and(and(beats(100), lost(60)), bytes(0, 1)), want: quiet},
			{now: at(20), with: and(and(beats(200), lost(60)), bytes(0, 1)), want: ends(rules.TooMany)},
		}},
		{"counts run over", many, []row{{now: at(10), with: beats(1<<32 - 3), want: quiet}, {now: at(20), with: beats(3), want: quiet}}},
		{"counted each second strike", dry, []row{
			{now: at(10), with: beats(10), want: quiet},
			{now: at(20), with: beats(20), want: counted(quiet, rules.TooMany)},
			{now: at(30), with: beats(30), want: quiet},
			{now: at(40), with: beats(40), want: counted(quiet, rules.TooMany)},
		}},
		{"fast enough", slow, []row{{now: at(10), with: bytes(100, 0), want: quiet}, {now: at(20), with: bytes(200, 0), want: quiet}}},
		{"too slow", slow, []row{{now: at(10), with: bytes(99, 0), want: quiet}, {now: at(20), with: bytes(198, 0), want: ends(rules.TooSlow)}}},
		{"slow ones, too", slowDry, []row{
			{now: at(10), with: bytes(1, 0), want: quiet},
			{now: at(20), with: bytes(2, 0), want: counted(quiet, rules.TooSlow)},
			{now: at(30), with: bytes(3, 0), want: quiet},
			{now: at(40), with: bytes(4, 0), want: counted(quiet, rules.TooSlow)},
		}},
		{"nothing at all", once, []row{{now: at(10), with: bytes(0, 0), want: quiet}}},
		{"bytes wait: the window goes on", once, []row{{now: at(10), with: bytes(99, 1), want: quiet}, {now: at(20), with: bytes(199, 0), want: ends(rules.TooSlow)}}},
		{"bytes wait, and then come fast", once, []row{{now: at(10), with: bytes(99, 1), want: quiet}, {now: at(20), with: bytes(200, 0), want: quiet}}},
	} {
		t.Run(c.name, func(t *testing.T) {
			trace(t, c.policy, rules.Open(&c.policy, &rules.Evidence{}), c.rows...)
		})
	}
}

// What arrived before the policy came counts for nothing.
func TestRatesAfterUpdate(t *testing.T) {
	p := rules.Policy{Timeout: 1000 * tick, MinBytes: 10, Strikes: 1}
	s := rules.Adapt(&p, rules.State{}, &rules.Evidence{Socket: rules.Socket{Arrived: 7}}, at(50))
	s = trace(t, p, s,
		row{now: at(50), with: asked(rules.Socket{Arrived: 7}), want: wait(at(1000))})
	require.Equal(t, at(60), rules.Limit(&p, s, &rules.Evidence{}))
	trace(t, p, s,
		row{now: at(60), with: asked(rules.Socket{Arrived: 7}), want: wait(at(1000))},
		row{now: at(70), with: asked(rules.Socket{Arrived: 8}), want: ends(rules.TooSlow)})
}
