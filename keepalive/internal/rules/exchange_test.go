package rules_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/heartwheel-go/heartwheel/keepalive/internal/rules"
)

// exchangeUntil is an exchange, or the time after one.
func exchangeUntil(until rules.Time) func(e *rules.Evidence) {
	return func(e *rules.Evidence) { e.Exchange = until }
}

// Neither an age nor a drain ends a connection in the middle of an exchange.
func TestExchanges(t *testing.T) {
	age := rules.Policy{Timeout: 1000 * tick, MaxAge: 15 * tick}
	grace, dry, paced := age, age, age
	grace.MaxGrace = 3 * tick
	dry.DryRun = true
	paced.Paced = true
	underWay, over := exchangeUntil(rules.Never), and(exchangeUntil(at(22)), mute)
	unread := func(e *rules.Evidence) { e.Socket.Unread = 1 }
	arriving := func(e *rules.Evidence) { e.Arriving = true }
	came := func(at rules.Time) func(e *rules.Evidence) {
		return func(e *rules.Evidence) { e.Socket.Received = at }
	}
	quiet, tell, later := wait(at(1000)), rules.Outcome{Do: rules.Tell, Why: rules.MaxAge}, ifAllowed(ends(rules.MaxAge))
	drained := rules.State{}.Dismissed(rules.Drain)
	for _, c := range []struct {
		name   string
		policy rules.Policy
		state  rules.State
		rows   []row
		limit  rules.Time // with an exchange until 22
	}{
		{"an age", age, rules.State{}, []row{
			{now: at(20), with: underWay, want: tell},
			{now: at(20), with: underWay, want: quiet},
			{now: at(21), with: over, want: quiet},
			{now: at(22), with: over, want: ends(rules.MaxAge)},
		}, 0},
		{"an age, and an unread request", age, rules.State{}, []row{
			{now: at(20), with: underWay, want: tell},
			{now: at(22), with: and(over, unread), want: quiet},
			{now: at(22).Add(10*time.Second) - 1, with: and(over, unread), want: quiet},
			{now: at(22).Add(10 * time.Second), with: and(over, unread), want: ends(rules.MaxAge)},
		}, 0},
		{"an age, and a request that has begun to arrive", age, rules.State{}, []row{
			{now: at(20), with: underWay, want: tell},
			{now: at(22), with: and(over, arriving), want: quiet},
			{now: at(22).Add(10*time.Second) - 1, with: and(over, arriving), want: quiet},
			{now: at(22).Add(10 * time.Second), with: and(over, arriving), want: ends(rules.MaxAge)},
		}, 0},
		{"an age, and bytes that may be a request", age, rules.State{}, []row{
			{now: at(20), with: underWay, want: tell},
			{now: at(22), with: and(over, came(at(22).Add(1-rules.LastWord))), want: quiet},
			{now: at(23), with: and(over, came(at(23).Add(-rules.LastWord))), want: ends(rules.MaxAge)},
		}, 0},
		{"bytes that may be a request, for ever", age, rules.State{}, []row{
			{now: at(20), with: underWay, want: tell},
			{now: at(22).Add(10*time.Second) - 1, with: and(over, came(at(22).Add(10*time.Second)-1)), want: quiet},
			{now: at(22).Add(10 * time.Second), with: and(over, came(at(22).Add(10*time.Second))), want: ends(rules.MaxAge)},
		}, 0},
		{"a request begins to arrive before the rate allows it", paced, rules.State{}, []row{
			{now: at(20), with: over, want: tell},
			{now: at(22), with: over, want: later},
			{now: at(23), with: and(over, arriving), want: quiet},
			{now: at(25), with: over, want: later},
			{now: at(26), with: over, want: ifAllowed(ends(rules.MaxAge))},
		}, rules.Never},
		{"an age, told", age, rules.State{}, []row{{now: at(20), with: underWay, want: tell}}, at(22)},
		{"a grace", grace, rules.State{}, []row{
			{now: at(20), with: underWay, want: tell},
			{now: at(23) - 1, with: underWay, want: quiet},
			{now: at(23), with: underWay, want: ends(rules.MaxAge)},
		}, 0},
		{"a dry run", dry, rules.State{}, []row{
			{now: at(20), with: over, want: counted(quiet, rules.MaxAge)},
			{now: at(22), with: over, want: quiet},
		}, rules.Never},
		{"another exchange before the rate allows it", paced, rules.State{}, []row{
			{now: at(20), with: over, want: tell},
			{now: at(22), with: over, want: later},
			{now: at(23), with: underWay, want: quiet},
			{now: at(25), with: over, want: later},
			{now: at(26), with: over, want: ifAllowed(ends(rules.MaxAge))},
		}, rules.Never},
		{"another exchange just before the close", age, rules.State{}, []row{
			{now: at(20), with: over, want: tell},
			{now: at(22), with: over, want: ends(rules.MaxAge)},
			{now: at(22), with: underWay, want: quiet},
		}, at(22)},
		{"a drain", age, drained, []row{
			{now: at(3), with: underWay, want: quiet},
			{now: at(19), with: over, want: quiet},
			{now: at(21), with: over, want: tell},
			{now: at(21), with: over, want: quiet},
			{now: at(22), with: and(over, unread), want: quiet},
			{now: at(22), with: and(over, arriving), want: quiet},
			{now: at(22), with: and(over, came(at(22))), want: quiet},
			{now: at(22), with: over, want: ends(rules.Drain)},
		}, at(22)},
		{"a drain, then its age", age, drained, []row{{now: at(3), with: underWay, want: quiet}}, at(20)},
		{"a drain, dry run", dry, drained, []row{{now: at(22), with: over, want: ends(rules.Drain)}}, at(20)},
		{"a drain without exchanges", age, drained, []row{{now: at(3), want: ends(rules.Drain)}}, at(20)},
		{"a drain and a grace", grace, drained, []row{
			{now: at(20), with: underWay, want: tell},
			{now: at(23) - 1, with: underWay, want: quiet},
			{now: at(23), with: underWay, want: ends(rules.MaxAge)},
		}, 0},
		{"a drain of a closing one", age, rules.State{}.Condemned(rules.Local).Dismissed(rules.Drain), []row{{now: at(3), with: underWay, want: ends(rules.Local)}}, 0},
		{"a drain has no more time", age, drained.Condemned(rules.Drain), []row{{now: at(3), with: underWay, want: ends(rules.Drain)}}, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := rules.Open(&c.policy, &rules.Evidence{Born: at(5)})
			s.Doom = c.state.Doom
			s = trace(t, c.policy, s, c.rows...)
			require.Equal(t, c.limit, rules.Limit(&c.policy, s, &rules.Evidence{Exchange: at(22), Retry: rules.Never}))
			s = rules.Adapt(&c.policy, s, &rules.Evidence{}, at(30))
			require.True(t, c.state.Doom.Why == 0 || s.Doom.Why != 0, "an update keeps a drain")
		})
	}
}

// A peer that trickles its request does not keep a drain waiting. It waits for no rate: if it was heard until then, it
// would be spared, and the drain forgotten.
func TestEachLimitHoldsUntilTheEndOfAnExchange(t *testing.T) {
	silent := moved(0, 0)
	for why, c := range map[rules.Reason]struct {
		policy rules.Policy
		with   func(e *rules.Evidence)
	}{
		rules.ReadIdle:  {rules.Policy{ReadIdle: 10 * tick}, silent},
		rules.WriteIdle: {rules.Policy{WriteIdle: 10 * tick}, silent},
		rules.TooMany:   {rules.Policy{MinBeat: tick, Strikes: 1}, and(silent, func(e *rules.Evidence) { e.Beats = 100 })},
		rules.TooSlow:   {rules.Policy{MinBytes: 100, Strikes: 1}, asked(rules.Socket{Arrived: 1})},
		rules.MaxAge:    {rules.Policy{MaxAge: 9 * tick, MaxGrace: tick}, silent},
	} {
		p := c.policy
		p.Timeout, p.Paced = 1000*tick, true
		s := rules.Open(&p, &rules.Evidence{}).Dismissed(rules.Drain)
		if why == rules.MaxAge {
			s.Age.Told = at(9)
		}
		underWay := rules.Evidence{Exchange: rules.Never}
		require.Equal(t, at(10), rules.Limit(&p, s, &underWay), "%v", why)
		s = trace(t, p, s, row{now: at(10), with: and(exchangeUntil(rules.Never), c.with), want: ends(why)})
		require.Zero(t, rules.Limit(&p, s, &underWay), "%v", why)
	}
}

func TestAConnectionEndsBetweenTwoExchangesForItsDrainOrItsAge(t *testing.T) {
	drained, old := rules.State{}.Dismissed(rules.Drain), rules.State{Age: rules.Age{Told: 1}}
	require.Zero(t, rules.State{}.EndsBetween())
	require.Zero(t, rules.State{}.Condemned(rules.Drain).EndsBetween(), "at once")
	require.Equal(t, rules.Drain, drained.EndsBetween())
	require.Equal(t, rules.MaxAge, old.EndsBetween())
	require.Equal(t, rules.Drain, old.Dismissed(rules.Drain).EndsBetween())
	require.Equal(t, rules.Shed, rules.State{}.Warned(rules.Shed).EndsBetween())
}

func TestDeadlineOfExchanges(t *testing.T) {
	p := rules.Policy{Tick: tick, Timeout: 1000 * tick, MaxAge: 15 * tick}
	told := rules.State{Age: rules.Age{From: at(5), Told: at(20)}}
	drained := rules.State{Age: rules.Age{From: at(5)}}.Dismissed(rules.Drain)
	for _, c := range []struct {
		name  string
		state rules.State
		until rules.Time
		want  rules.Time
		why   rules.Reason
	}{
		{"an age", told, at(25), at(25), rules.MaxAge},
		{"an exchange", told, rules.Never, at(1000), rules.Idle},
		{"a drain", drained, at(15), at(15), rules.Drain},
		{"a drain now", drained, 0, at(10), rules.Drain},
		{"a drain and an exchange", drained, rules.Never, at(20), rules.MaxAge},
	} {
		at, why := rules.Deadline(&p, c.state, rules.Evidence{Quiet: true, Exchange: c.until}, at(10))
		require.Equal(t, c.want, at, c.name)
		require.Equal(t, c.why, why, c.name)
	}
}
