package enginetest

import (
	"context"
	"math"
	"strconv"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/heartwheel-go/heartwheel/timeout/engine"
)

// testTokens tries old tokens in every situation with a chance to be taken for new.
func testTokens(r *rig) {
	r.make(engine.Topic{Slots: 2, Retain: 0})
	type lease struct { // numbers differ for one key: each shard counts for itself
		key    engine.Key
		number int64
	}
	seen := map[lease]bool{}
	fresh := func(leased engine.Leased) engine.Token {
		given := lease{leased.Token.Key, leased.Token.Lease}
		require.False(r.t, seen[given], "lease %v is given twice", given)
		seen[given] = true
		parsed, err := engine.ParseToken(leased.Token.String())
		require.NoError(r.t, err)
		require.Equal(r.t, leased.Token, parsed)
		return leased.Token
	}
	void := func(token engine.Token) {
		before := r.get(token.ID)
		require.Equal(r.t, []bool{false}, r.extend(short, token))
		for _, as := range []engine.State{engine.Done, engine.Dead, engine.Pending} {
			require.Equal(r.t, []bool{false}, r.settle(engine.Outcome{Token: token, As: as, Error: "void"}))
		}
		require.Equal(r.t, plain(before), plain(r.get(token.ID)), "a void token changes nothing")
	}
	var version int64
	leaseAgain := func() engine.Token {
		leased := r.leased("1", long)
		require.Greater(r.t, leased.Version, version, "a version is given twice")
		version = leased.Version
		require.Equal(r.t, 1, leased.Attempts)
		return fresh(leased)
	}

	first := leaseAgain()
	second := leaseAgain() // set over a running one
	void(first)
	require.Equal(r.t, engine.Running, r.remove("1").Was)
	void(second)
	third := leaseAgain() // removed and set again
	void(first)
	void(second)
	require.Equal(r.t, []bool{true}, r.settle(engine.Outcome{Token: third, As: engine.Done}))
	void(third)
	fourth := leaseAgain() // done and set again
	void(third)
	require.Equal(r.t, []bool{true}, r.settle(engine.Outcome{Token: fourth, As: engine.Pending}))
	void(fourth)
	fifth := fresh(r.lease(1, long)[0]) // tried again
	void(fourth)
	require.Equal(r.t, []bool{true}, r.settle(engine.Outcome{Token: fifth, As: engine.Dead}))
	void(fifth)
	require.Equal(r.t, engine.Dead, r.replay("1").Was)
	void(fifth)
	sixth := fresh(r.lease(1, long)[0]) // replayed
	void(fifth)

	// Texts and numbers in the form of a token, never given to anybody.
	wrong := sixth
	wrong.Lease += 1 << 20
	void(wrong)
	wrong.Lease = 0
	void(wrong)
	stranger := sixth
	stranger.ID = "2"
	require.Equal(r.t, []bool{false}, r.extend(long, stranger))
	require.Equal(r.t, []bool{false}, r.settle(engine.Outcome{Token: stranger, As: engine.Done}))
	require.Equal(r.t, engine.None, r.get("2").State)
	r.set("2", r.later())
	r.set("3", past)
	failed := fresh(r.lease(1, long)[0])
	require.Equal(r.t, []bool{true}, r.settle(engine.Outcome{Token: failed, As: engine.Pending, After: long}))
	for _, id := range []string{"1", "2", "3"} {
		for _, part := range []string{sixth.Part, "", "0", "-1", ":", "1:1", "\xff", "zzzzzzzzzzzzzz"} {
			for _, lease := range []int64{0, -1, 1, -sixth.Lease, math.MinInt64, math.MaxInt64} {
				strange := engine.Token{Key: r.key(id), Lease: lease, Part: part}
				if strange != sixth {
					void(strange)
				}
			}
		}
		wrong = sixth
		wrong.Part = "zzzzzzzzzzzzzz" // an engine may need no part
		_, err := r.engine.Extend(r.ctx, []engine.Token{wrong}, long)
		require.NoError(r.t, err)
	}

	require.Equal(r.t, []bool{true, false, true}, r.extend(long, sixth, fifth, sixth))
	require.Equal(r.t, []bool{false, true, false}, r.settle(
		engine.Outcome{Token: fifth, As: engine.Done},
		engine.Outcome{Token: sixth, As: engine.Pending, After: long},
		engine.Outcome{Token: sixth, As: engine.Done},
	), "the second of two outcomes of one lease has no effect")
	require.Equal(r.t, engine.Pending, r.get("1").State)
}

// testAttempts goes through the outcomes.
func testAttempts(r *rig) {
	r.make(engine.Topic{Slots: 1, Retain: long, Retries: 5})
	set := r.set("1", past)
	first := r.leaseOne("a", long)
	require.Equal(r.t, set.Version, first.Version)
	require.Equal(r.t, "payload of 1", string(first.Payload))
	require.Equal(r.t, "a", first.Node)
	require.False(r.t, first.Again)
	sameTime(r.t, past, first.Due, "Due")
	left := first.Until.Sub(r.now())
	require.True(r.t, left <= long+time.Millisecond && left > long-time.Minute, "the lease has %v left", left)
	require.Equal(r.t, plain(first.Task), plain(r.get("1")))

	require.Equal(r.t, []bool{true}, r.settle(engine.Outcome{Token: first.Token, As: engine.Pending, After: long, Error: "first"}))
	task := r.get("1")
	require.Equal(r.t, engine.Pending, task.State)
	require.Equal(r.t, 1, task.Attempts)
	require.Equal(r.t, "first", task.Error)
	require.Equal(r.t, set.Version, task.Version)
	sameTime(r.t, past, task.Due, "Due stays the action time")
	wait := task.Until.Sub(r.now())
	require.True(r.t, wait <= long+time.Millisecond && wait > long-time.Minute, "it waits %v", wait)
	r.idle(20 * time.Millisecond)

	require.Equal(r.t, engine.Pending, r.move("1", past).Was)
	second := r.leaseOne("b", long)
	require.Equal(r.t, 2, second.Attempts)
	require.Equal(r.t, "first", second.Error)
	require.Equal(r.t, "b", second.Node)
	require.False(r.t, second.Again)

	require.Equal(r.t, []bool{true}, r.settle(engine.Outcome{Token: second.Token, As: engine.Pending, Release: true, Error: "not begun"}))
	task = r.get("1")
	require.Equal(r.t, 1, task.Attempts, "the released attempt does not count")
	require.Equal(r.t, "first", task.Error, "what was not begun has not failed")
	third := r.leaseOne("a", long)
	require.Equal(r.t, 2, third.Attempts)
	require.Equal(r.t, []bool{true}, r.settle(engine.Outcome{Token: third.Token, As: engine.Done}))
	task = r.get("1")
	require.Equal(r.t, engine.Done, task.State)
	require.Equal(r.t, 2, task.Attempts)
	require.Equal(r.t, "first", task.Error, "the error of an earlier attempt is kept")
	r.recent(task.Until)

	// The next attempt may have a time instead of a wait.
	for _, release := range []bool{false, true} {
		r.set("1", past)
		timed := r.leaseOne("a", long)
		at := r.later()
		require.Equal(r.t, []bool{true}, r.settle(engine.Outcome{Token: timed.Token, As: engine.Pending, Due: at, After: time.Minute, Release: release}))
		task = r.get("1")
		sameTime(r.t, at, task.Until, "Until")
		sameTime(r.t, past, task.Due, "Due stays the action time")
		r.set("1", past)
		timed = r.leaseOne("a", long)
		require.Equal(r.t, []bool{true}, r.settle(engine.Outcome{Token: timed.Token, As: engine.Pending, Due: past, Release: release}))
		r.leaseOne("a", long)
	}
	require.Equal(r.t, engine.Running, r.remove("1").Was)

	// The caller decides how many attempts there are.
	r.set("2", past)
	for attempt := 1; attempt <= 299; attempt++ { // more than a byte can count
		leased := r.leaseOne("a", long)
		require.Equal(r.t, attempt, leased.Attempts)
		require.Equal(r.t, []bool{true}, r.settle(engine.Outcome{Token: leased.Token, As: engine.Pending, Error: "again"}))
	}
	last := r.leaseOne("a", long)
	require.Equal(r.t, []bool{true}, r.settle(engine.Outcome{Token: last.Token, As: engine.Dead, Error: "for ever"}))
	task = r.get("2")
	require.Equal(r.t, engine.Dead, task.State)
	require.Equal(r.t, "for ever", task.Error)
	require.Equal(r.t, 300, task.Attempts)
	require.Equal(r.t, engine.Dead, r.replay("2").Was)
	r.ending(r.leaseOne("a", long))
	unbegun := r.leaseOne("b", long)
	require.Equal(r.t, []bool{true}, r.settle(engine.Outcome{Token: unbegun.Token, As: engine.Dead, Release: true, Error: "not begun"}))
	task = r.get("2")
	require.Equal(r.t, engine.Dead, task.State)
	require.Equal(r.t, "not begun", task.Error)
	require.Equal(r.t, []int{1, 301, 301}, []int{task.Attempts, task.Calls, task.Failures}, "the released attempt does not count")
	r.idle(20 * time.Millisecond)

	r.set("3", past)
	released := r.leaseOne("a", long)
	require.Equal(r.t, []bool{true}, r.settle(engine.Outcome{Token: released.Token, As: engine.Pending, After: long, Release: true}))
	require.Zero(r.t, r.get("3").Attempts)
}

// leaseOne leases the one due task.
func (r *rig) leaseOne(node string, lease time.Duration) engine.Leased {
	r.t.Helper()
	var batch engine.Batch
	r.eventually("a task is leased", func() bool {
		batch = r.leaseBatch(engine.Ask{Node: node, Max: 10, Lease: lease})
		return len(batch.Leased) > 0
	})
	require.Len(r.t, batch.Leased, 1)
	return batch.Leased[0]
}

// testOneLease leases very many tasks for so short that leases end while the call leases others.
func testOneLease(r *rig) {
	r.make(engine.Topic{Slots: 2, Retries: engine.MaxRetries})
	const count = 1000
	tasks := make([]engine.Task, count)
	for i := range tasks {
		tasks[i] = r.task(strconv.Itoa(i), past)
	}
	r.setAll(tasks...)
	for range 5 {
		r.leaseBatch(engine.Ask{Max: 3 * count, Lease: time.Millisecond})
	}
}

// testLeases lets leases run out.
func testLeases(r *rig) {
	r.make(engine.Topic{Slots: 4, Retries: 1})
	kept := r.leased("kept", long)
	require.Equal(r.t, []bool{true}, r.extend(2*long, kept.Token))
	keeps := r.get("kept")
	left := keeps.Until.Sub(r.now())
	require.True(r.t, left <= 2*long+time.Millisecond && left > 2*long-time.Minute, "the extended lease has %v left", left)
	cut := r.leased("cut", long)
	settled := r.leased("settled", long)
	extended := r.leased("extended", long)
	lost := r.ending(r.leased("lost", long)) // nothing is leased from here on until all the others are ready
	require.Equal(r.t, []bool{true, true, true}, r.extend(short, cut.Token, settled.Token, extended.Token), "a lease can be made shorter")
	time.Sleep(2 * short)

	// An ended lease is still the last one until another follows.
	require.Equal(r.t, []bool{true}, r.extend(long, extended.Token))
	batch := r.leaseBatch(engine.Ask{Node: "other", Settle: []engine.Outcome{{Token: settled.Token, As: engine.Done}}, Max: 10})
	require.Equal(r.t, []bool{true}, batch.Settled)
	again := batch.Leased
	r.eventually("what was lost is leased again", func() bool {
		again = append(again, r.leaseBatch(engine.Ask{Node: "other", Max: 10}).Leased...)
		return len(again) >= 2
	})
	require.Len(r.t, again, 2)
	before := map[string]engine.Token{"lost": lost.Token, "cut": cut.Token}
	for _, leased := range again {
		require.Contains(r.t, before, leased.ID)
		require.True(r.t, leased.Again)
		require.Equal(r.t, 2, leased.Attempts)
		require.Equal(r.t, "other", leased.Node)
		require.Regexp(r.t, `^timeout: the lease of \S+ ended in attempt 1$`, leased.Error)
		require.NotEqual(r.t, before[leased.ID].Lease, leased.Token.Lease, "those of other tasks may be equal, on other shards")
	}
	require.Equal(r.t, engine.None, r.get("settled").State)
	require.Equal(r.t, plain(keeps), plain(r.get("kept")), "shorter leases of others leave a lease as it is")
	require.Equal(r.t, "node", r.get("extended").Node)
	require.Equal(r.t, []bool{false, false}, r.extend(long, lost.Token, cut.Token))
	require.Equal(r.t, []bool{false, false}, r.settle(
		engine.Outcome{Token: lost.Token, As: engine.Done}, engine.Outcome{Token: cut.Token, As: engine.Dead},
	))
	for _, leased := range again {
		require.Equal(r.t, engine.Running, r.get(leased.ID).State)
		require.Equal(r.t, []bool{true}, r.extend(short, leased.Token))
	}
	r.died("lost", "cut")
	for _, leased := range again {
		require.Equal(r.t, []bool{false}, r.extend(long, leased.Token))
		require.Equal(r.t, []bool{false}, r.settle(engine.Outcome{Token: leased.Token, As: engine.Done}))
	}
	require.Equal(r.t, engine.Dead, r.replay("lost").Was)
	leased := r.lease(1, long)[0]
	require.Equal(r.t, 1, leased.Attempts)
	require.False(r.t, leased.Again)
}

// testLeasesDuringMaintenance makes and extends leases while another engine only does maintenance.
func testLeasesDuringMaintenance(r *rig) {
	r.make(engine.Topic{Slots: 1})
	ctx, cancel := context.WithCancel(r.ctx)
	defer cancel()
	ended := make(chan error, 1)
	go func() {
		for ctx.Err() == nil {
			if _, err := r.purge(r.ctx, r.second); err != nil {
				ended <- err
				return
			}
		}
		ended <- nil
	}()
	untouched := func(before engine.Task) {
		r.t.Helper()
		for range 3 {
			require.Equal(r.t, plain(before), plain(r.get("1")), "maintenance changes no lease")
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

// died gives up those tasks, and no others, when their leases have ended.
func (r *rig) died(ids ...string) {
	r.t.Helper()
	var died []string
	for range ids {
		died = append(died, r.giveUp(r.lease(1, long)[0]).ID)
	}
	require.ElementsMatch(r.t, ids, died)
	for _, task := range r.getAll(ids...) {
		require.Equal(r.t, engine.Dead, task.State)
		require.Regexp(r.t, `^timeout: the lease of \S+ ended in attempt 2$`, task.Error)
		require.Equal(r.t, 2, task.Attempts)
		r.recent(task.Until)
	}
}
