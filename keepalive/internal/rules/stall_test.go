package rules_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/heartwheel-go/heartwheel/keepalive/internal/rules"
)

// idleAt is a socket for which nothing waits. It has rested for so many ticks so far.
func idleAt(took rules.Time, rested int, acked uint64) func(e *rules.Evidence) {
	return waits(took, rested, acked, func(k *rules.Socket) { k.Waits = false })
}

// waits is a socket with bytes that wait. The peer last took some at an instant, so many in all.
func waits(took rules.Time, rested int, acked uint64, more ...func(k *rules.Socket)) func(e *rules.Evidence) {
	return func(e *rules.Evidence) {
		k := &e.Socket
		k.Waits, k.Took, k.Acked = true, took, acked
		k.Rested = time.Duration(rested) * tick
		k.RestedMost = k.Rested
		for _, f := range more {
			f(k)
		}
	}
}

func flying(left rules.Time) func(k *rules.Socket) {
	return func(k *rules.Socket) { k.Flying, k.Left = true, left }
}

func unsent(n int) func(k *rules.Socket) { return func(k *rules.Socket) { k.Unsent = n } }

// stays is that nothing comes of a look.
var stays = wait(at(1000))

func TestWriteStallAndMaxUnsent(t *testing.T) {
	stall := rules.Policy{Timeout: 1000 * tick, WriteStall: 10 * tick}
	paced, dry, asks := stall, stall, stall
	paced.Paced, dry.DryRun, asks.Asks = true, true, true
	most := rules.Policy{Timeout: 1000 * tick, MaxUnsent: 100}
	both := most
	both.WriteStall = 10 * tick
	dryMost := most
	dryMost.DryRun = true
	held := rules.State{Holds: 1}
	for _, c := range []struct {
		name   string
		policy rules.Policy
		state  rules.State
		rows   []row
		limit  rules.Time // when to look again
	}{
		{"off", rules.Policy{Timeout: 1000 * tick}, rules.State{}, []row{{now: at(50), with: waits(at(1), 0, 1, unsent(1e9)), want: stays}}, rules.Never},
		{"nothing waits", stall, rules.State{}, []row{{now: at(3), with: idleAt(at(1), 0, 1), want: stays}}, at(13)},
		{"since the first look, for all that is known", stall, rules.State{}, []row{
			{now: at(3), with: waits(at(1), 0, 1), want: stays},
			{now: at(13) - 1, with: waits(at(1), 0, 1), want: stays},
			{now: at(13), with: waits(at(1), 0, 1), want: ends(rules.WriteStall)},
		}, at(13)},
		{"held, touched and not due", stall, held, []row{
			{now: at(3), with: and(touchedAt(at(3)), waits(at(1), 0, 1)), want: wait(at(1003))},
			{now: at(13), with: and(touchedAt(at(12)), waits(at(1), 0, 1)), want: ends(rules.WriteStall)},
		}, at(13)},
		{"the user is not asked", asks, rules.State{}, []row{
			{now: at(3), with: waits(at(1), 0, 1), want: stays},
			{now: at(13), with: waits(at(1), 0, 1), want: ends(rules.WriteStall)},
		}, at(13)},
		{"bytes on their way", stall, rules.State{}, []row{
			{now: at(9), with: waits(at(1), 0, 1, flying(at(2))), want: stays},
			{now: at(12), with: waits(at(1), 0, 1, flying(at(11))), want: ends(rules.WriteStall)}, // more has been sent
		}, at(12)},
		{"bytes on their way since the peer took some", stall, rules.State{}, []row{
			{now: at(9), with: waits(at(4), 0, 1, flying(at(2))), want: stays},
		}, at(14)},
		{"written to a closed window long after the peer took the last", stall, rules.State{}, []row{
			{now: at(10), with: idleAt(at(2), 9, 1), want: stays},
			{now: at(20), with: waits(at(2), 13, 1), want: stays},
			{now: at(24) - 1, with: waits(at(2), 13, 1), want: stays},
			{now: at(24), with: waits(at(2), 13, 1), want: ends(rules.WriteStall)},
		}, at(24)},
		{"the window closes in the middle of a download", stall, rules.State{}, []row{
			{now: at(1), with: idleAt(at(1), 1, 1), want: stays},
			{now: at(11), with: waits(at(7), 1, 500), want: stays},
			{now: at(17), with: waits(at(7), 1, 500), want: ends(rules.WriteStall)},
		}, at(17)},
		{"the peer took some, and more were written in the end", stall, rules.State{}, []row{
			{now: at(10), with: idleAt(at(2), 9, 1), want: stays},
			{now: at(20), with: waits(at(12), 16, 2), want: stays}, // since 19 at the latest
		}, at(29)},
		{"this process was stopped, and the kernel was not", stall, rules.State{}, []row{
			{now: at(10), with: idleAt(at(2), 9, 1), want: stays},
			{now: at(20), with: waits(at(2), 9+70, 1), want: stays}, // so it may have been written just now
		}, at(30)},
		{"more time by the kernel than there is", stall, rules.State{}, []row{
			{now: at(10), with: idleAt(at(2), 9, 1), want: stays},
			{now: at(20) - 1, with: waits(at(2), 5, 1), want: stays},
			{now: at(20), with: waits(at(2), 5, 1), want: ends(rules.WriteStall)},
		}, at(20)},
		{"it goes on", stall, rules.State{}, []row{
			{now: at(1), with: waits(at(1), 0, 1, flying(at(1))), want: stays},
			{now: at(11), with: waits(at(9), 0, 2, flying(at(11))), want: stays},
			{now: at(21), with: waits(at(20), 0, 3, flying(at(15))), want: stays},
			{now: at(30), with: idleAt(at(22), 0, 4), want: stays},
		}, at(40)},
		{"for ever", rules.Policy{Timeout: 1000 * tick, WriteStall: forever}, rules.State{}, []row{{now: at(7), with: waits(at(1), 0, 1), want: stays}}, rules.Never},
		{"the rate does not allow it, and then the peer takes a byte", paced, rules.State{}, []row{
			{now: at(3), with: waits(at(1), 0, 1), want: stays},
			{now: at(13), with: waits(at(1), 0, 1), want: ifAllowed(ends(rules.WriteStall))},
			{now: at(13), with: and(retryAt(at(15)), waits(at(1), 0, 1)), want: stays},
			{now: at(15), with: waits(at(14), 0, 2), want: stays},
		}, at(24)},
		{"the rate does not allow it before long", paced, rules.State{}, []row{
			{now: at(3), with: waits(at(1), 0, 1), want: stays},
			{now: at(13), with: waits(at(1), 0, 1), want: ifAllowed(ends(rules.WriteStall))},
			{now: at(13), with: and(retryAt(at(15)), waits(at(1), 0, 1)), want: stays},
			{now: at(15), with: waits(at(1), 0, 1), want: ifAllowed(ends(rules.WriteStall))},
		}, at(13)},
		{"a dry run counts a stall once", dry, rules.State{}, []row{
			{now: at(3), with: waits(at(1), 0, 1), want: stays},
			{now: at(13), with: waits(at(1), 0, 1), want: counted(stays, rules.WriteStall)},
			{now: at(23), with: waits(at(1), 0, 1), want: stays},
			{now: at(33), with: waits(at(30), 0, 2, flying(at(30))), want: stays},
			{now: at(40), with: waits(at(30), 0, 2), want: counted(stays, rules.WriteStall)},
		}, at(50)},
		{"a Write that waits", stall, rules.State{}, []row{
			{now: at(3), with: waits(rules.Unknown, 3, 1), want: stays},
			{now: at(13), with: waits(rules.Unknown, 13, 1), want: ends(rules.WriteStall)},
		}, at(13)},
		{"a Write that waits, and a program that is slow", stall, rules.State{}, []row{
			{now: at(3), with: waits(rules.Unknown, 3, 1), want: stays},
			{now: at(20), with: and(dueAt(at(13)), waits(rules.Unknown, 20, 1)), want: sparedUntil(at(1000))},
			{now: at(22), with: waits(rules.Unknown, 22, 1), want: ends(rules.WriteStall)},
		}, at(22)},
		{"another Write waits", stall, rules.State{}, []row{
			{now: at(3), with: waits(rules.Unknown, 3, 1), want: stays},
			{now: at(13), with: waits(rules.Unknown, 13, 2), want: stays},
		}, at(23)},
		{"that program is slow is no excuse if the kernel tells", stall, rules.State{}, []row{
			{now: at(3), with: waits(at(1), 0, 1), want: stays},
			{now: at(20), with: and(dueAt(at(13)), waits(at(1), 0, 1)), want: ends(rules.WriteStall)},
		}, at(13)},
		{"as many as may be", most, rules.State{}, []row{{now: at(3), with: waits(at(1), 0, 1, unsent(100)), want: stays}}, at(3).Add(time.Second)},
		{"too many", most, rules.State{}, []row{{now: at(3), with: waits(at(1), 0, 1, unsent(101)), want: ends(rules.MaxUnsent)}}, at(3).Add(time.Second)},
		{"nothing waits so far", most, rules.State{}, []row{{now: at(3), with: idleAt(at(1), 0, 1), want: stays}}, at(3).Add(10 * time.Second)},
		{"both, and there are too many", both, held, []row{
			{now: at(3), with: waits(at(1), 0, 1, unsent(99)), want: stays},
			{now: at(4), with: waits(at(1), 0, 1, unsent(101)), want: ends(rules.MaxUnsent)},
		}, at(4).Add(time.Second)},
		{"both, and it is over", both, rules.State{}, []row{
			{now: at(3), with: waits(at(1), 0, 1, unsent(99)), want: stays},
			{now: at(13), with: waits(at(1), 0, 1, unsent(99)), want: ends(rules.WriteStall)},
		}, at(13)},
		{"a dry run", dryMost, rules.State{}, []row{
			{now: at(3), with: waits(at(1), 0, 1, unsent(101)), want: counted(stays, rules.MaxUnsent)},
			{now: at(4), with: waits(at(1), 0, 1, unsent(99)), want: stays},
		}, at(4).Add(time.Second)},
	} {
		t.Run(c.name, func(t *testing.T) {
			p, s, q := c.policy, c.state, rules.Stall{}
			p.Tick, p.Blur = tick, tick
			for i, r := range c.rows {
				e := rules.Evidence{Socket: silentSocket, Quiet: true, Due: true, DueAt: r.now, Begun: r.now, Stall: q}
				r.with(&e)
				var out rules.Outcome
				s, out = rules.Decide(&p, s, &e, r.now)
				q, out.Stall = out.Stall, rules.Stall{}
				require.Equal(t, out.Do == rules.Close, out.Reset)
				out.Reset = false
				require.Equal(t, r.want, out, "row %d, at %v; state %+v %+v", i, time.Duration(r.now), s, q)
			}
			s.Doom = rules.Doom{}
			require.Equal(t, c.limit, rules.Limit(&p, s, &rules.Evidence{Stall: q}))
		})
	}
}

// It is known from the first look on, and without the policy nothing is.
func TestAStallThroughUpdates(t *testing.T) {
	stall := rules.Policy{Tick: tick, Timeout: 1000 * tick, WriteStall: 10 * tick}
	e := rules.Evidence{Born: at(3)}
	s := rules.Open(&stall, &e)
	require.Zero(t, rules.Limit(&stall, s, &e), "it is looked at as soon as it comes")
	e.Stall = rules.Stall{Since: at(5), Looked: at(7), Rested: tick, Acked: 1}
	seen := e.Stall

	longer := stall
	longer.WriteStall = 20 * tick
	s = rules.Adapt(&longer, s, &e, at(8))
	require.Equal(t, seen, e.Stall)
	require.Equal(t, at(25), rules.Limit(&longer, s, &e))

	none := stall
	none.WriteStall = 0
	s = rules.Adapt(&none, s, &e, at(8))
	require.Zero(t, e.Stall)
	require.Equal(t, rules.Never, rules.Limit(&none, s, &e))

	e.Stall = rules.Stall{Since: rules.Never, Looked: at(7)}
	s = rules.Adapt(&stall, s, &e, at(8))
	require.Zero(t, rules.Limit(&stall, s, &e), "after a dry run it begins anew")
}
