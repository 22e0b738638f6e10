package rules_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/heartwheel-go/heartwheel/keepalive/internal/rules"
)

func TestDoom(t *testing.T) {
	p := rules.Policy{Timeout: 16 * tick, ReadIdle: 6 * tick, WriteIdle: 7 * tick, Paced: true}
	doomed := func(why rules.Reason) rules.State {
		end := map[rules.Reason]rules.End{rules.ReadIdle: rules.UnlessRead, rules.WriteIdle: rules.UnlessWritten}[why]
		return rules.State{Doom: rules.Doom{Why: why, End: end}, Idles: rules.Idles{Spent: [2]rules.Time{at(8), at(8)}}}
	}
	held := doomed(rules.ReadIdle)
	held.Holds = 1
	for _, c := range []struct {
		name  string
		state rules.State
		rows  []row
		limit rules.Time
	}{
		{"at once", rules.State{}.Condemned(rules.Drain), []row{{now: 0, with: touchedAt(0), want: ends(rules.Drain)}}, 0},
		{"at once, whatever the rate", doomed(rules.MaxAge).Condemned(rules.Local), []row{{now: at(9), want: ends(rules.Local)}}, 0},
		{"the rate does not allow it", doomed(rules.MaxAge), []row{
			{now: at(9), with: touchedAt(at(9)), want: ifAllowed(ends(rules.MaxAge))},
			{now: at(9), with: and(touchedAt(at(9)), retryAt(at(11))), want: wait(at(25))},
		}, rules.Never},
		{"when the rate allows it", doomed(rules.MaxAge), []row{{now: at(9), want: ifAllowed(ends(rules.MaxAge))}}, rules.Never},
		{"silent while it waits", doomed(rules.MaxAge), []row{
			{now: at(16), with: mute, want: ifAllowed(ends(rules.MaxAge))},
			{now: at(16), with: and(mute, retryAt(at(18))), want: wait(at(18))},
		}, rules.Never},
		{"nothing was read", doomed(rules.ReadIdle), []row{
			{now: at(9), with: moved(0, at(9)), want: ifAllowed(ends(rules.ReadIdle))},
		}, rules.Never},
		{"nothing was written, nor read", doomed(rules.WriteIdle), []row{{now: at(9), with: moved(0, 0), want: ifAllowed(ends(rules.WriteIdle))}}, rules.Never},
		{"rescued", doomed(rules.ReadIdle), []row{{now: at(14), with: moved(at(9), at(9)), want: wait(at(16))}}, at(15)},
		{"rescued by a write", doomed(rules.WriteIdle), []row{{now: at(14), with: moved(at(9), at(9)), want: wait(at(16))}}, at(15)},
		{"once the user is told", rules.State{}.Warned(rules.Shed), []row{
			{now: at(9), with: touchedAt(at(9)), want: rules.Outcome{Do: rules.Tell, Why: rules.Shed}},
			{now: at(9), with: touchedAt(at(9)), want: ends(rules.Shed)},
		}, 0},
		{"held", held, []row{{now: at(14), with: moved(0, 0), want: wait(at(16))}}, at(20)},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := trace(t, p, c.state, c.rows...)
			require.Equal(t, c.limit, rules.Limit(&p, s, &rules.Evidence{Retry: rules.Never}))
		})
	}
}

func TestIsLeaving(t *testing.T) {
	leaving := rules.State{Silence: rules.Silence{Stage: rules.Leaving}}
	require.False(t, rules.State{}.IsLeaving(true))
	require.True(t, leaving.IsLeaving(true))
	require.False(t, leaving.IsLeaving(false), "touched meanwhile")
	require.True(t, rules.State{Doom: rules.Doom{Why: rules.MaxAge}}.IsLeaving(false))
}

// It leaves after the grace, whatever the rate and the dry run. Meanwhile all other limits hold, and a drain ends the grace.
func TestTheGraceBeforeTheEnd(t *testing.T) {
	p := rules.Policy{Timeout: 16 * tick, ReadIdle: 6 * tick, MaxAge: 100 * tick, MaxGrace: 4 * tick, Paced: true}
	dry := p
	dry.DryRun = true
	tell := row{now: at(9), with: moved(at(9), at(9)), want: rules.Outcome{Do: rules.Tell, Why: rules.Shed}}
	for _, c := range []struct {
		name string
		p    rules.Policy
		rows []row
	}{
		{"nothing else", p, []row{
			tell,
			{now: at(9), with: moved(at(9), at(9)), want: wait(at(16))},
			{now: at(13) - 1, with: moved(at(9), at(9)), want: wait(at(16))},
			{now: at(13), with: moved(at(9), at(9)), want: ends(rules.Shed)},
		}},
		{"nothing else in a dry run", dry, []row{tell, {now: at(13), with: moved(at(9), at(9)), want: ends(rules.Shed)}}},
		{"nothing is read", p, []row{tell, {now: at(12), with: moved(at(6), at(9)), want: ends(rules.ReadIdle)}}},
		{"nothing is read in a dry run", dry, []row{tell, {now: at(12), with: moved(at(6), at(9)), want: counted(wait(at(16)), rules.ReadIdle)}}},
		{"an exchange since", p, []row{
			tell,
			{now: at(13), with: and(moved(at(9), at(9)), exchangeUntil(rules.Never)), want: wait(at(16))},
			{now: at(15), with: and(moved(at(9), at(9)), exchangeUntil(at(14))), want: ends(rules.Shed)},
		}},
	} {
		t.Run(c.name, func(t *testing.T) { trace(t, c.p, rules.State{}.Warned(rules.Shed), c.rows...) })
	}
	told := trace(t, p, rules.State{}.Warned(rules.Shed), tell)
	idle := p
	idle.ReadIdle = 0
	require.Equal(t, at(13), rules.Limit(&idle, told, &rules.Evidence{}))
	trace(t, p, told.Dismissed(rules.Drain), row{now: at(10), with: moved(at(9), at(9)), want: ends(rules.Drain)})
}
