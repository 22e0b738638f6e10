package rules_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/heartwheel-go/heartwheel/keepalive/internal/rules"
)

// moved is a socket with the instants of its last bytes, in and out.
func moved(received, sent rules.Time) func(e *rules.Evidence) {
	return asked(rules.Socket{Heard: received, Received: received, Sent: sent})
}

func TestReadAndWriteIdle(t *testing.T) {
	both := rules.Policy{Timeout: 1000 * tick, ReadIdle: 6 * tick, WriteIdle: 7 * tick}
	asks, dry := both, both
	asks.Asks, dry.DryRun = true, true
	probes := asks
	probes.ProbeAfter, probes.ProbeTimeout, probes.ProbeCount = 500*tick, 4*tick, 1
	paced := probes
	paced.Paced = true
	quiet := wait(at(1000))
	reads := rules.Policy{Timeout: 1000 * tick, ReadIdle: 6 * tick}
	unread := asked(rules.Socket{Heard: at(1), Received: at(1), Arrived: 5, Unread: 5})
	read := asked(rules.Socket{Heard: at(1), Received: at(1), Arrived: 5, Taken: 5})
	for _, c := range []struct {
		name   string
		policy rules.Policy
		holds  int32
		rows   []row
		limit  rules.Time // when to look again
	}{
		{"too early", both, 0, []row{{now: at(6) - 1, want: quiet}}, at(6)},
		{"nothing was read", both, 0, []row{{now: at(6), with: moved(0, at(1)), want: ends(rules.ReadIdle)}}, 0},
		{"nothing was written", both, 0, []row{
			{now: at(6), with: moved(at(1), 0), want: quiet},
			{now: at(7) - 1, want: quiet},
			{now: at(7), with: moved(at(1)+1, 0), want: ends(rules.WriteIdle)},
		}, 0},
		{"to the instant", both, 0, []row{{now: at(6), with: moved(1, at(6)), want: quiet}}, at(6) + 1},
		{"both are over, and the user has been asked about one", asks, 0, []row{
			{now: at(50), with: and(moved(0, 0), answer(rules.WriteIdle, rules.Condemn)), want: ends(rules.WriteIdle)},
		}, 0},
		{"the socket can't tell", both, 0, []row{{now: at(50), with: mute, want: quiet}}, rules.Never},
		{"held", both, 1, []row{{now: at(50), with: moved(0, 0), want: wait(at(1000))}}, at(56)},
		{"one of two", rules.Policy{Timeout: 1000 * tick, WriteIdle: 7 * tick}, 0, []row{{now: at(7), with: moved(0, 0), want: ends(rules.WriteIdle)}}, 0},
		{"the second is the shorter", rules.Policy{Timeout: 1000 * tick, ReadIdle: 7 * tick, WriteIdle: 6 * tick}, 0, []row{
			{now: at(6), with: moved(0, 0), want: ends(rules.WriteIdle)},
		}, 0},
		{"for ever", rules.Policy{Timeout: 1000 * tick, ReadIdle: forever}, 0, []row{{now: at(7), with: moved(0, 0), want: quiet}}, rules.Never},
		{"unread bytes, and a program that hangs", reads, 0, []row{
			{now: at(7), with: unread, want: slowUntil(at(1000))},
			{now: at(13), with: unread, want: slowUntil(at(1000))},
			{now: at(19), with: unread, want: slowUntil(at(1000))},
			{now: at(25), with: unread, want: ends(rules.ReadIdle)},
		}, 0},
		{"unread bytes, and then they are read", reads, 0, []row{
			{now: at(7), with: unread, want: slowUntil(at(1000))},
			{now: at(13), with: read, want: ends(rules.ReadIdle)},
		}, 0},
		{"late, and all was read just before", reads, 0, []row{
			{now: at(13), with: and(read, dueAt(at(7)), touchedAt(at(13))), want: rules.Outcome{Do: rules.Wait, Until: at(1013), Spared: true}},
			{now: at(19) - 1, with: and(read, touchedAt(at(13))), want: wait(at(1013))},
			{now: at(25), with: and(read, dueAt(at(19)), touchedAt(at(25))), want: ends(rules.ReadIdle)}, // nothing came since
		}, 0},
		{"late, and all was read in time", reads, 0, []row{
			{now: at(13), with: and(read, dueAt(at(7)), touchedAt(at(7))), want: ends(rules.ReadIdle)},
		}, 0},
		{"five ticks late are not busy", reads, 0, []row{
			{now: at(12), with: and(read, dueAt(at(7)), touchedAt(at(12))), want: ends(rules.ReadIdle)},
		}, 0},
		{"both in a dry run", dry, 0, []row{
			{now: at(7), with: moved(0, 0), want: counted(counted(quiet, rules.ReadIdle), rules.WriteIdle)},
			{now: at(13), with: moved(0, 0), want: quiet},
			{now: at(19), with: moved(at(13), 0), want: counted(quiet, rules.ReadIdle)}, // another silence
		}, at(25)},
		{"extended", asks, 0, []row{
			{now: at(6), with: moved(0, 0), want: ask(rules.ReadIdle)},
			{now: at(6), with: and(moved(0, 0), answer(rules.ReadIdle, rules.Verdict(5*tick))), want: quiet},
			{now: at(11), with: moved(0, 0), want: ask(rules.ReadIdle)},
		}, at(11)},
		{"one is ignored, and not the other", asks, 0, []row{
			{now: at(7), with: and(moved(0, 0), answer(rules.ReadIdle, rules.Pardon)), want: ask(rules.WriteIdle)},
			{now: at(7), with: and(moved(0, 0), answer(rules.WriteIdle, rules.Condemn)), want: ends(rules.WriteIdle)},
		}, 0},
		{"another silence than the one asked about", asks, 0, []row{
			{now: at(7), with: and(moved(at(7), 0), answer(rules.ReadIdle, rules.Condemn)), want: ask(rules.WriteIdle)},
		}, at(6)}, // it is due already
		{"ended while the user was asked", asks, 0, []row{
			{now: at(6), with: and(moved(at(6), at(5)), answer(rules.ReadIdle, rules.Condemn)), want: quiet},
		}, at(12)},
		{"probe, without probes", asks, 0, []row{
			{now: at(6), with: and(moved(0, 0), answer(rules.ReadIdle, rules.ProbeIt)), want: ends(rules.ReadIdle)},
		}, 0},
		{"probe", probes, 0, []row{
			{now: at(6), with: and(asked(rules.Socket{Signs: 9}), answer(rules.ReadIdle, rules.ProbeIt)), want: probeFor(rules.ReadIdle)},
			{now: at(6), with: and(asked(rules.Socket{Signs: 9}), probedFor(rules.ReadIdle, rules.Sent)), want: wait(at(10))},
			{now: at(10), with: asked(rules.Socket{Signs: 9}), want: closes(rules.NoAnswer)}, // what came before is no answer
		}, at(12)},
		{"probe, and nothing else was written for long", probes, 0, []row{
			{now: at(7), with: and(moved(at(5), 0), answer(rules.WriteIdle, rules.ProbeIt)), want: probeFor(rules.WriteIdle)},
			{now: at(7), with: and(moved(at(5), at(7)), probedFor(rules.WriteIdle, rules.Sent)), want: wait(at(11))},
			{now: at(11), with: moved(at(5), at(7)), want: closes(rules.NoAnswer)},
		}, at(13)},
		{"probe again, and again", rules.Policy{Timeout: 1000 * tick, WriteIdle: 7 * tick, Asks: true, ProbeAfter: 500 * tick, ProbeTimeout: 10 * tick, ProbeCount: 1}, 0, []row{
			{now: at(7), with: and(moved(at(5), 0), answer(rules.WriteIdle, rules.ProbeIt)), want: probeFor(rules.WriteIdle)},
			{now: at(7), with: and(moved(at(5), at(7)), probedFor(rules.WriteIdle, rules.Sent)), want: wait(at(17))},
			{now: at(14), with: and(moved(at(5), at(7)), answer(rules.WriteIdle, rules.ProbeIt)), want: probeFor(rules.WriteIdle)},
			{now: at(14), with: and(moved(at(5), at(14)), probedFor(rules.WriteIdle, rules.Sent)), want: wait(at(17))},
			{now: at(17), with: moved(at(5), at(14)), want: closes(rules.NoAnswer)},
		}, at(21)},
		{"probe while the rate does not allow its close", rules.Policy{Timeout: 1000 * tick, WriteIdle: 7 * tick, Asks: true, Paced: true, ProbeAfter: 500 * tick, ProbeTimeout: 10 * tick, ProbeCount: 1}, 0, []row{
			{now: at(7), with: and(moved(at(5), at(7)), probedFor(rules.WriteIdle, rules.Sent)), want: wait(at(17))},
			{now: at(17), with: moved(at(5), at(12)), want: ifAllowed(closes(rules.NoAnswer))},
			{now: at(17), with: and(moved(at(5), at(12)), retryAt(at(3617))), want: wait(at(3617))},
			{now: at(21), with: and(moved(at(5), at(21)), probedFor(rules.WriteIdle, rules.Sent)), want: wait(at(3617))},
		}, at(28)},
		{"probes are gone when it was sent", asks, 0, []row{
			{now: at(7), with: and(moved(at(5), at(7)), probedFor(rules.WriteIdle, rules.Sent)), want: wait(at(1007))},
			{now: at(1007), with: moved(at(1005), at(1005)), want: closes(rules.NoAnswer)},
		}, at(1011)},
		{"probe for what was read, and probes are gone when it was sent", asks, 0, []row{
			{now: at(6), with: and(moved(0, at(6)), probedFor(rules.ReadIdle, rules.Sent)), want: wait(at(1006))},
		}, at(12)},
		{"probe fails, and the rate does not allow the close", paced, 0, []row{
			{now: at(6), with: and(moved(0, at(6)), probedFor(rules.ReadIdle, rules.Failed)), want: ifAllowed(ends(rules.NoAnswer))},
			{now: at(9), with: moved(at(8), at(6)), want: wait(at(500))},
		}, at(13)},
		{"probe can be sent in part only, and the rate does not allow the close", paced, 0, []row{
			{now: at(7), with: and(moved(at(7), at(7)), probedFor(rules.WriteIdle, rules.Failed)), want: ifAllowed(ends(rules.NoAnswer))},
			{now: at(9), with: moved(at(8), at(7)), want: ifAllowed(ends(rules.NoAnswer))},
		}, rules.Never},
		{"probe fails, and bytes were read meanwhile", probes, 0, []row{
			{now: at(8), with: and(moved(at(7), at(7)), probedFor(rules.ReadIdle, rules.Failed)), want: wait(at(500))},
		}, at(13)},
		{"probe, and it can be sent in part only", probes, 0, []row{
			{now: at(7), with: and(moved(at(5), at(7)), probedFor(rules.WriteIdle, rules.Failed)), want: ends(rules.NoAnswer)},
		}, 0},
		{"probe, and the socket has an answer at once", probes, 0, []row{
			{now: at(6), with: and(asked(rules.Socket{Signs: 9}), answer(rules.ReadIdle, rules.ProbeIt)), want: probeFor(rules.ReadIdle)},
			{now: at(6), with: and(asked(rules.Socket{Signs: 10}), probedFor(rules.ReadIdle, rules.Sent)), want: wait(at(10))},
			{now: at(10), with: asked(rules.Socket{Heard: at(6), Signs: 10}), want: heard(at(6))},
		}, at(12)},
		{"probe, and it is answered at once", probes, 0, []row{
			{now: at(6), with: and(moved(0, 0), touchedAt(at(6)), probedFor(rules.ReadIdle, rules.Sent)), want: wait(at(506))},
		}, at(12)},
		{"probe, and it can't be sent", probes, 0, []row{
			{now: at(6), with: and(moved(0, 0), probedFor(rules.ReadIdle, rules.Failed)), want: ends(rules.NoAnswer)},
		}, 0},
		{"close, after a probe that can't be sent", probes, 0, []row{
			{now: at(6), with: and(moved(0, 0), failed, answer(rules.ReadIdle, rules.Condemn)), want: ends(rules.ReadIdle)},
		}, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			c.policy.Tick = tick
			s := rules.Open(&c.policy, &rules.Evidence{})
			s.Holds = c.holds
			s = trace(t, c.policy, s, c.rows...)
			require.Equal(t, c.limit, rules.Limit(&c.policy, s, &rules.Evidence{Retry: rules.Never}))
		})
	}
}

// A hold is no silence, and its end is no byte.
func TestReadIdleAfterHold(t *testing.T) {
	p := rules.Policy{Timeout: 1000 * tick, ReadIdle: 6 * tick}
	trace(t, p, rules.State{Released: at(10)},
		row{now: at(16) - 1, with: moved(0, 0), want: wait(at(1000))},
		row{now: at(16), with: moved(0, 0), want: ends(rules.ReadIdle)})
}
