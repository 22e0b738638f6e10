package enginetest

import (
	"context"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/heartwheel-go/heartwheel/timeout"
)

// testTokens has old tokens tried in every situation in which they could be taken for new.
func testTokens(r *rig) {
	r.make(timeout.Topic{Slots: 2, Retain: 0})
	seen := map[int64]bool{}
	fresh := func(leased timeout.Leased) timeout.Token {
		require.False(r.t, seen[leased.Token.Lease], "lease %d is given twice", leased.Token.Lease)
		seen[leased.Token.Lease] = true
		parsed, err := timeout.ParseToken(leased.Token.String())
		require.NoError(r.t, err)
		require.Equal(r.t, leased.Token, parsed)
		return leased.Token
	}
	void := func(token timeout.Token) {
		before := r.get(token.ID)
		require.Equal(r.t, []bool{false}, r.extend(short, token))
		for _, as := range []timeout.State{timeout.Done, timeout.Dead, timeout.Pending} {
			require.Equal(r.t, []bool{false}, r.settle(timeout.Outcome{Token: token, As: as, Error: "void"}))
		}
		require.Equal(r.t, plain(before), plain(r.get(token.ID)), "a void token changes nothing")
	}
	var version int64
	leaseAgain := func() timeout.Token {
		leased := r.leased("1", long)
		require.Greater(r.t, leased.Version, version, "a version is given twice")
		version = leased.Version
		require.Equal(r.t, 1, leased.Attempts)
		return fresh(leased)
	}

	first := leaseAgain()
	second := leaseAgain() // set over a running one
	void(first)
	require.Equal(r.t, timeout.Running, r.remove("1").Was)
	void(second)
	third := leaseAgain() // removed and set again
	void(first)
	void(second)
	require.Equal(r.t, []bool{true}, r.settle(timeout.Outcome{Token: third, As: timeout.Done}))
	void(third)
	fourth := leaseAgain() // done and set again
	void(third)
	require.Equal(r.t, []bool{true}, r.settle(timeout.Outcome{Token: fourth, As: timeout.Pending}))
	void(fourth)
	fifth := fresh(r.lease(1, long)[0]) // tried again
	void(fourth)
	require.Equal(r.t, []bool{true}, r.settle(timeout.Outcome{Token: fifth, As: timeout.Dead}))
	void(fifth)
	require.Equal(r.t, timeout.Dead, r.replay("1").Was)
	void(fifth)
	sixth := fresh(r.lease(1, long)[0]) // replayed
	void(fifth)

	// What only looks like a token.
	wrong := sixth
	wrong.Lease += 1 << 20
	void(wrong)
	wrong.Lease = 0
	void(wrong)
	stranger := sixth
	stranger.ID = "2"
	require.Equal(r.t, []bool{false}, r.extend(long, stranger))
	require.Equal(r.t, []bool{false}, r.settle(timeout.Outcome{Token: stranger, As: timeout.Done}))
	require.Equal(r.t, timeout.None, r.get("2").State)
	waits := stranger
	r.set("2", r.later())
	waits.Lease = 0
	void(waits)

	require.Equal(r.t, []bool{true, false, true}, r.extend(long, sixth, fifth, sixth))
	require.Equal(r.t, []bool{false, true, false}, r.settle(
		timeout.Outcome{Token: fifth, As: timeout.Done},
		timeout.Outcome{Token: sixth, As: timeout.Pending, After: long},
		timeout.Outcome{Token: sixth, As: timeout.Done},
	), "the second of two outcomes of one lease has no effect")
	require.Equal(r.t, timeout.Pending, r.get("1").State)
}

// testAttempts goes through the outcomes.
func testAttempts(r *rig) {
	r.make(timeout.Topic{Slots: 1, Retain: long, Retries: 5})
	set := r.set("1", past)
	first := r.expireOne("a", long)
	require.Equal(r.t, set.Version, first.Version)
	require.Equal(r.t, "payload of 1", string(first.Payload))
	require.Equal(r.t, "a", first.Node)
	require.False(r.t, first.Again)
	sameTime(r.t, past, first.Due, "Due")
	left := first.Until.Sub(r.now())
	require.True(r.t, left <= long+time.Millisecond && left > long-time.Minute, "the lease has %v left", left)
	require.Equal(r.t, plain(first.Task), plain(r.get("1")))

	require.Equal(r.t, []bool{true}, r.settle(timeout.Outcome{Token: first.Token, As: timeout.Pending, After: long, Error: "first"}))
	task := r.get("1")
	require.Equal(r.t, timeout.Pending, task.State)
	require.Equal(r.t, 1, task.Attempts)
	require.Equal(r.t, "first", task.Error)
	require.Equal(r.t, set.Version, task.Version)
	sameTime(r.t, past, task.Due, "Due stays the action time")
	wait := task.Until.Sub(r.now())
	require.True(r.t, wait <= long+time.Millisecond && wait > long-time.Minute, "it waits %v", wait)
	r.idle(20 * time.Millisecond)

	require.Equal(r.t, timeout.Pending, r.move("1", past).Was)
	second := r.expireOne("b", long)
	require.Equal(r.t, 2, second.Attempts)
	require.Equal(r.t, "first", second.Error)
	require.Equal(r.t, "b", second.Node)
	require.False(r.t, second.Again)

	require.Equal(r.t, []bool{true}, r.settle(timeout.Outcome{Token: second.Token, As: timeout.Pending, Refund: true}))
	task = r.get("1")
	require.Equal(r.t, 1, task.Attempts, "the attempt is given back")
	require.Equal(r.t, "first", task.Error, "what was not begun has not failed")
	third := r.expireOne("a", long)
	require.Equal(r.t, 2, third.Attempts)
	require.Equal(r.t, []bool{true}, r.settle(timeout.Outcome{Token: third.Token, As: timeout.Done}))
	task = r.get("1")
	require.Equal(r.t, timeout.Done, task.State)
	require.Equal(r.t, 2, task.Attempts)
	require.Equal(r.t, "first", task.Error, "the error of an earlier attempt is kept")
	r.recent(task.Until)

	// The next attempt may have a time, and not only a wait.
	for _, refund := range []bool{false, true} {
		r.set("1", past)
		timed := r.expireOne("a", long)
		at := r.later()
		require.Equal(r.t, []bool{true}, r.settle(timeout.Outcome{Token: timed.Token, As: timeout.Pending, Due: at, After: time.Minute, Refund: refund}))
		task = r.get("1")
		sameTime(r.t, at, task.Until, "Until")
		sameTime(r.t, past, task.Due, "Due stays the action time")
		r.set("1", past)
		timed = r.expireOne("a", long)
		require.Equal(r.t, []bool{true}, r.settle(timeout.Outcome{Token: timed.Token, As: timeout.Pending, Due: past, Refund: refund}))
		r.expireOne("a", long)
	}
	require.Equal(r.t, timeout.Running, r.remove("1").Was)

	// The number of attempts is the caller's to count, other than for leases that end.
	r.set("2", past)
	for attempt := 1; attempt <= 9; attempt++ {
		leased := r.expireOne("a", long)
		require.Equal(r.t, attempt, leased.Attempts)
		require.Equal(r.t, []bool{true}, r.settle(timeout.Outcome{Token: leased.Token, As: timeout.Pending, Error: "again"}))
	}
	last := r.expireOne("a", long)
	require.Equal(r.t, []bool{true}, r.settle(timeout.Outcome{Token: last.Token, As: timeout.Dead, Error: "for ever"}))
	task = r.get("2")
	require.Equal(r.t, timeout.Dead, task.State)
	require.Equal(r.t, "for ever", task.Error)
	require.Equal(r.t, 10, task.Attempts)
	r.idle(20 * time.Millisecond)

	r.set("3", past)
	refunded := r.expireOne("a", long)
	require.Equal(r.t, []bool{true}, r.settle(timeout.Outcome{Token: refunded.Token, As: timeout.Pending, After: long, Refund: true}))
	require.Zero(r.t, r.get("3").Attempts)
}

// expireOne leases the one task that is due.
func (r *rig) expireOne(node string, lease time.Duration) timeout.Leased {
	r.t.Helper()
	var batch timeout.Batch
	r.eventually("a task is leased", func() bool {
		batch = r.expire(timeout.Ask{Node: node, Max: 10, Lease: lease})
		return len(batch.Leased) > 0 || len(batch.Died) > 0
	})
	require.Empty(r.t, batch.Died)
	require.Len(r.t, batch.Leased, 1)
	return batch.Leased[0]
}

// testLeases has leases run out.
func testLeases(r *rig) {
	r.make(timeout.Topic{Slots: 4, Retries: 1})
	kept := r.leased("kept", long)
	require.Equal(r.t, []bool{true}, r.extend(2*long, kept.Token))
	left := r.get("kept").Until.Sub(r.now())
	require.True(r.t, left <= 2*long+time.Millisecond && left > 2*long-time.Minute, "the extended lease has %v left", left)
	cut := r.leased("cut", long)
	settled := r.leased("settled", long)
	extended := r.leased("extended", long)
	lost := r.leased("lost", short) // from here on nothing is leased before all of the others are ready
	require.Equal(r.t, []bool{true, true, true}, r.extend(short, cut.Token, settled.Token, extended.Token), "a lease can be made shorter")
	time.Sleep(2 * short)

	// A lease that is over is still the last one, until somebody has another.
	require.Equal(r.t, []bool{true}, r.extend(long, extended.Token))
	batch := r.expire(timeout.Ask{Node: "other", Settle: []timeout.Outcome{{Token: settled.Token, As: timeout.Done}}, Max: 10})
	require.Equal(r.t, []bool{true}, batch.Settled)
	again := batch.Leased
	r.eventually("what was lost is leased again", func() bool {
		again = append(again, r.expire(timeout.Ask{Node: "other", Max: 10}).Leased...)
		return len(again) >= 2
	})
	require.Len(r.t, again, 2)
	before := map[string]timeout.Token{"lost": lost.Token, "cut": cut.Token}
	for _, leased := range again {
		require.Contains(r.t, before, leased.ID)
		require.True(r.t, leased.Again)
		require.Equal(r.t, 2, leased.Attempts)
		require.Equal(r.t, "other", leased.Node)
		require.NotEqual(r.t, before[leased.ID].Lease, leased.Token.Lease, "those of other tasks may be equal, on other shards")
	}
	require.Equal(r.t, timeout.None, r.get("settled").State)
	require.Equal(r.t, "node", r.get("kept").Node)
	require.Equal(r.t, "node", r.get("extended").Node)
	require.Equal(r.t, []bool{false, false}, r.extend(long, lost.Token, cut.Token))
	require.Equal(r.t, []bool{false, false}, r.settle(
		timeout.Outcome{Token: lost.Token, As: timeout.Done}, timeout.Outcome{Token: cut.Token, As: timeout.Dead},
	))
	for _, leased := range again {
		require.Equal(r.t, timeout.Running, r.get(leased.ID).State)
		require.Equal(r.t, []bool{true}, r.extend(short, leased.Token))
	}
	r.died("lost", "cut")
	for _, leased := range again {
		require.Equal(r.t, []bool{false}, r.extend(long, leased.Token))
		require.Equal(r.t, []bool{false}, r.settle(timeout.Outcome{Token: leased.Token, As: timeout.Done}))
	}
	require.Equal(r.t, timeout.Dead, r.replay("lost").Was)
	leased := r.lease(1, long)[0]
	require.Equal(r.t, 1, leased.Attempts)
	require.False(r.t, leased.Again)
}

// testLeasesDuringUpkeep makes and extends leases while another engine does nothing but upkeep.
func testLeasesDuringUpkeep(r *rig) {
	r.make(timeout.Topic{Slots: 1})
	ctx, cancel := context.WithCancel(r.ctx)
	defer cancel()
	ended := make(chan error, 1)
	go func() {
		for ctx.Err() == nil {
			if _, err := r.sweep(r.ctx, r.second); err != nil {
				ended <- err
				return
			}
		}
		ended <- nil
	}()
	untouched := func(before timeout.Task) {
		r.t.Helper()
		for range 3 {
			require.Equal(r.t, plain(before), plain(r.get("1")), "upkeep changes no lease")
		}
	}
	for begin := time.Now(); time.Since(begin) < busy; {
		leased := r.leased("1", long)
		untouched(leased.Task)
		require.Equal(r.t, []bool{true}, r.extend(2*long, leased.Token))
		untouched(r.get("1"))
	}
	cancel()
	require.NoError(r.t, <-ended)
}

// died waits until those, and no others, have outlived their last attempt.
func (r *rig) died(ids ...string) {
	r.t.Helper()
	var died []timeout.Key
	r.eventually("what outlives its last attempt dies", func() bool {
		batch := r.expire(timeout.Ask{Max: 10})
		require.Empty(r.t, batch.Leased)
		died = append(died, batch.Died...)
		return len(died) >= len(ids)
	})
	require.ElementsMatch(r.t, r.keys(ids...), died)
	for _, task := range r.getAll(ids...) {
		require.Equal(r.t, timeout.Dead, task.State)
		require.Contains(r.t, task.Error, "lease")
		require.Equal(r.t, 2, task.Attempts)
		r.recent(task.Until)
	}
}
