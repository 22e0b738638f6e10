package rules_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/heartwheel-go/heartwheel/keepalive/internal/rules"
)

// checkAt is when the next check of the user's is due.
func checkAt(at rules.Time) func(e *rules.Evidence) {
	return func(e *rules.Evidence) { e.CheckAt = at }
}

// wants is a check that wants the connection closed.
func wants(why rules.Reason) func(e *rules.Evidence) {
	return func(e *rules.Evidence) { e.Checked = why }
}

func TestChecks(t *testing.T) {
	const mine = rules.Check + 3
	inspect, later := rules.Outcome{Do: rules.Inspect}, checkAt(at(15))
	paced, dry := rules.Policy{Paced: true}, rules.Policy{DryRun: true}
	for _, c := range []struct {
		name   string
		policy rules.Policy
		state  rules.State
		rows   []row
		limit  rules.Time // with a check at 15
	}{
		{"due", rules.Policy{}, rules.State{}, []row{
			{now: at(5) - 1, with: checkAt(at(5)), want: wait(at(16))},
			{now: at(5), with: checkAt(at(5)), want: inspect},
			{now: at(5), with: later, want: wait(at(16))},
		}, at(15)},
		{"none", rules.Policy{}, rules.State{}, []row{{now: at(5), want: wait(at(16))}}, at(15)},
		{"a touch puts it not off", rules.Policy{}, rules.State{}, []row{{now: at(5), with: and(touchedAt(at(5)), checkAt(at(5))), want: inspect}}, at(15)},
		{"held", rules.Policy{}, rules.State{Holds: 1}, []row{{now: at(5), with: checkAt(at(5)), want: inspect}}, at(15)},
		{"it closes", rules.Policy{}, rules.State{}, []row{{now: at(5), with: and(later, wants(mine)), want: ends(mine)}}, 0},
		{"when the rate allows it", paced, rules.State{}, []row{
			{now: at(5), with: and(later, wants(mine)), want: ifAllowed(ends(mine))},
			{now: at(5), with: and(later, retryAt(at(7))), want: wait(at(16))},
			{now: at(7), with: and(later, touchedAt(at(6))), want: ifAllowed(ends(mine))},
		}, rules.Never},
		{"dry run", dry, rules.State{}, []row{{now: at(5), with: and(later, wants(mine)), want: counted(wait(at(16)), rules.Check)}}, at(15)},
		{"no check after the end", rules.Policy{}, rules.State{}.Condemned(rules.Local), []row{{now: at(5), with: checkAt(at(5)), want: ends(rules.Local)}}, 0},
		{"a check before the end of an exchange", rules.Policy{}, rules.State{}.Dismissed(rules.Drain), []row{
			{now: at(5), with: and(checkAt(at(5)), exchangeUntil(rules.Never)), want: inspect},
			{now: at(5), with: and(later, wants(mine), exchangeUntil(rules.Never)), want: ends(mine)},
		}, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := trace(t, c.policy, c.state, c.rows...)
			require.Equal(t, c.limit, rules.Limit(&c.policy, s, &rules.Evidence{CheckAt: at(15), Retry: rules.Never}))
		})
	}
	require.Zero(t, rules.Evidence{CheckAt: 1, Checked: mine}.Lasting(), "a touch makes what was wanted void")
}
