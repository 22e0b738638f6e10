package rules_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/heartwheel-go/heartwheel/keepalive/internal/rules"
)

func TestMaxAge(t *testing.T) {
	p := rules.Policy{Timeout: 1000 * tick, MaxAge: 15 * tick}
	grace, dry, paced := p, p, p
	grace.MaxGrace = 3 * tick
	dry.DryRun = true
	paced.Paced = true
	quiet, tell := wait(at(1000)), rules.Outcome{Do: rules.Tell, Why: rules.MaxAge}
	for _, c := range []struct {
		name   string
		policy rules.Policy
		rows   []row
		limit  rules.Time
	}{
		{"too young", p, []row{{now: at(20) - 1, want: quiet}}, at(20)},
		{"told, and closed", p, []row{{now: at(20), want: tell}, {now: at(20), want: ends(rules.MaxAge)}}, 0},
		{"touched", p, []row{{now: at(20), with: touchedAt(at(20)), want: tell}, {now: at(20), with: touchedAt(at(20)), want: ends(rules.MaxAge)}}, 0},
		{"a grace", grace, []row{{now: at(20), want: tell}, {now: at(20), want: quiet}, {now: at(23) - 1, want: quiet}, {now: at(23), want: ends(rules.MaxAge)}}, 0},
		{"told, and a grace", grace, []row{{now: at(20), want: tell}, {now: at(20), want: quiet}}, at(23)},
		{"a grace begins late", grace, []row{{now: at(30), want: tell}, {now: at(33) - 1, want: quiet}, {now: at(33), want: ends(rules.MaxAge)}}, 0},
		{"counted once, and not told", dry, []row{{now: at(20), want: counted(quiet, rules.MaxAge)}, {now: at(21), want: quiet}}, rules.Never},
		{"when the rate allows it", paced, []row{
			{now: at(20), want: tell},
			{now: at(20), want: ifAllowed(ends(rules.MaxAge))},
			{now: at(20), with: retryAt(at(30)), want: quiet},
			{now: at(30), want: ifAllowed(ends(rules.MaxAge))},
		}, rules.Never},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := rules.Open(&c.policy, &rules.Evidence{Born: at(5)})
			s = trace(t, c.policy, s, c.rows...)
			require.Equal(t, c.limit, rules.Limit(&c.policy, s, &rules.Evidence{Retry: rules.Never}))
		})
	}
}

// Each connection has an age of its own.
func TestMaxAgeIsDrawn(t *testing.T) {
	for _, c := range []struct {
		p    rules.Policy
		born rules.Time
		draw float64
		want rules.Time
	}{
		{rules.Policy{}, 5, 1, rules.Never},
		{rules.Policy{MaxAge: 20 * tick}, at(5), 1, at(25)},
		{rules.Policy{MaxAge: 20 * tick, MaxDraw: 0.5}, at(5), 0, at(25)},
		{rules.Policy{MaxAge: 20 * tick, MaxDraw: 0.5}, at(5), 0.5, at(20)},
		{rules.Policy{MaxAge: 20 * tick, MaxDraw: 0.5}, at(5), 1, at(15)},
		{rules.Policy{MaxAge: forever}, 5, 1, rules.Never},
		{rules.Policy{MaxAge: forever, MaxDraw: 1}, 5, 1, 5},
		{rules.Policy{MaxAge: 1}, 5, 0, 6},
	} {
		e := rules.Evidence{Born: c.born, Draw: c.draw}
		s := rules.Open(&c.p, &e)
		require.Equal(t, c.want, rules.Limit(&c.p, s, &e), "%+v", c)
	}
}

// An update in the first instant of all does not begin the age anew.
func TestMaxAgeFromTheFirstInstant(t *testing.T) {
	p := rules.Policy{MaxAge: 20 * tick}
	s := rules.Adapt(&p, rules.Open(&p, &rules.Evidence{}), &rules.Evidence{}, at(10))
	require.Equal(t, at(20)+1, rules.Limit(&p, s, &rules.Evidence{}))
}
