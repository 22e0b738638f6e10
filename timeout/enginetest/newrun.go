package enginetest

import (
	"fmt"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/heartwheel-go/heartwheel/timeout/engine"
)

// testNewRun checks engine.Outcome.NewRun: each run is like that of a task just set.
func testNewRun(r *rig) {
	r.make(engine.Topic{Slots: 1, Retain: long, Retries: 1})
	set := r.set("1", past)
	first := r.leaseOne("a", long)
	require.Equal(r.t, []bool{true}, r.settle(engine.Outcome{Token: first.Token, As: engine.Pending, Error: "first"}))
	last := r.leaseOne("a", long)
	require.Equal(r.t, 2, last.Attempts)
	require.Equal(r.t, "first", last.Error)
	for range 5 {
		before := r.now()
		require.Equal(r.t, []bool{true}, r.settle(engine.Outcome{Token: last.Token, As: engine.Pending, NewRun: true}))
		task := r.get("1")
		require.Equal(r.t, engine.Pending, task.State)
		require.Equal(r.t, set.Version, task.Version)
		require.Equal(r.t, "payload of 1", string(task.Payload))
		require.Zero(r.t, task.Attempts)
		require.Empty(r.t, task.Error, "the error of an earlier run is gone")
		require.Empty(r.t, task.Node)
		sameTime(r.t, task.Due, task.Until, "Until")
		require.False(r.t, task.Due.Before(before.Truncate(time.Millisecond)), "Due %v is before %v", task.Due, before)
		require.False(r.t, task.Due.After(r.now()), "Due %v is in the future", task.Due)
		require.Equal(r.t, map[engine.State]int{engine.Pending: 1}, r.sizes())
		last = r.leaseOne("b", long)
		require.Equal(r.t, 1, last.Attempts, "each run has all its attempts")
		require.Equal(r.t, set.Version, last.Version)
		require.Equal(r.t, "b", last.Node)
		require.Empty(r.t, last.Error)
		require.False(r.t, last.Again)
		sameTime(r.t, task.Due, last.Due, "Due")
		require.Equal(r.t, []bool{true}, r.settle(engine.Outcome{Token: last.Token, As: engine.Pending, Error: "again"}))
		last = r.leaseOne("b", long)
		require.Equal(r.t, 2, last.Attempts)
		sameTime(r.t, task.Due, last.Due, "Due stays the action time of this run")
	}

	// The wait is by the engine's clock. A waiting task can be moved and removed.
	require.Equal(r.t, []bool{true}, r.settle(engine.Outcome{Token: last.Token, As: engine.Pending, NewRun: true, After: long}))
	task := r.get("1")
	sameTime(r.t, task.Due, task.Until, "Until")
	wait := task.Due.Sub(r.now())
	require.True(r.t, wait <= long+time.Millisecond && wait > long-time.Minute, "it waits %v", wait)
	r.idle(20 * time.Millisecond)
	require.Equal(r.t, engine.Pending, r.move("1", past).Was)
	moved := r.leaseOne("a", long)
	require.Equal(r.t, 1, moved.Attempts)
	sameTime(r.t, past, moved.Due, "Due")
	at := r.later()
	require.Equal(r.t, []bool{true}, r.settle(engine.Outcome{Token: moved.Token, As: engine.Pending, NewRun: true, Release: true, Due: at, After: time.Minute}))
	task = r.get("1")
	sameTime(r.t, at, task.Due, "Due")
	require.Zero(r.t, task.Attempts)
	require.Equal(r.t, engine.Pending, r.remove("1").Was)

	// A lease that is over changes nothing.
	voids := func(what string, token engine.Token) {
		r.t.Helper()
		before := r.get(token.ID)
		require.Equal(r.t, []bool{false}, r.settle(engine.Outcome{Token: token, As: engine.Pending, NewRun: true, After: long}), what)
		require.Equal(r.t, plain(before), plain(r.get(token.ID)), what)
	}
	token := r.leased("2", long).Token
	voids("another task's token", engine.Token{Key: token.Key, Lease: first.Token.Lease, Part: token.Part})
	require.Equal(r.t, []bool{true, false}, r.settle(
		engine.Outcome{Token: token, As: engine.Pending, NewRun: true, After: long}, engine.Outcome{Token: token, As: engine.Done}))
	voids("settled", token)
	token = r.leased("2", long).Token
	r.set("2", r.later())
	voids("set", token)
	token = r.leased("2", long).Token
	require.Equal(r.t, engine.Running, r.remove("2").Was)
	voids("removed", token)
	token = r.ending(r.leased("2", long)).Token
	again := r.leaseOne("b", long)
	require.True(r.t, again.Again)
	voids("expired", token)

	// A failed run leaves its error, until the next outcome.
	token = r.leased("4", long).Token
	require.Equal(r.t, []bool{true}, r.settle(engine.Outcome{Token: token, As: engine.Pending, NewRun: true, Error: "failed"}))
	task = r.get("4")
	require.Equal(r.t, engine.Pending, task.State)
	require.Zero(r.t, task.Attempts)
	require.Equal(r.t, "failed", task.Error)
	require.Empty(r.t, task.Node)
	require.Equal(r.t, "payload of 4", string(task.Payload))
	sameTime(r.t, task.Due, task.Until, "Until")
	last = r.leaseOne("b", long)
	require.Equal(r.t, 1, last.Attempts)
	require.Equal(r.t, "failed", last.Error)
	sameTime(r.t, task.Due, last.Due, "Due")
	at = r.later()
	require.Equal(r.t, []bool{true}, r.settle(engine.Outcome{Token: last.Token, As: engine.Pending, NewRun: true, Error: "failed again", Due: at}))
	task = r.get("4")
	require.Equal(r.t, "failed again", task.Error)
	sameTime(r.t, at, task.Due, "Due")
	voids("failed", last.Token)
	require.Equal(r.t, engine.Pending, r.move("4", past).Was)
	moved = r.leaseOne("a", long)
	sameTime(r.t, past, moved.Due, "Due")
	require.Equal(r.t, []bool{true}, r.settle(engine.Outcome{Token: moved.Token, As: engine.Pending, NewRun: true, After: long}))
	require.Empty(r.t, r.get("4").Error)
	require.Equal(r.t, engine.Pending, r.remove("4").Was)

	// A run that ends without the attempt that was leased: that one does not count.
	for _, failure := range []string{"given up", ""} {
		token = r.leased("5", long).Token
		require.Equal(r.t, []bool{true}, r.settle(engine.Outcome{Token: token, As: engine.Pending, Error: "first"}))
		last = r.leaseOne("b", long)
		require.Equal(r.t, []bool{true}, r.settle(engine.Outcome{Token: last.Token, As: engine.Pending, NewRun: true, Release: true, Error: failure}))
		task = r.get("5")
		require.Equal(r.t, []any{0, 1, 1, failure, ""}, []any{task.Attempts, task.Calls, task.Failures, task.Error, task.Node})
		sameTime(r.t, task.Due, task.Until, "Until")
		last = r.leaseOne("b", long)
		require.Equal(r.t, []int{1, 2, 1}, []int{last.Attempts, last.Calls, last.Failures})
		require.Equal(r.t, engine.Running, r.remove("5").Was)
	}

	// The next run begins with all attempts, also after the end of a lease.
	require.Equal(r.t, []bool{true}, r.settle(engine.Outcome{Token: again.Token, As: engine.Pending, NewRun: true}))
	r.ending(r.leaseOne("a", long))
	again = r.leaseOne("b", long)
	require.True(r.t, again.Again)
	require.Equal(r.t, 2, again.Attempts)
	require.Equal(r.t, []bool{true}, r.settle(engine.Outcome{Token: again.Token, As: engine.Done}))

	// Without Retain an engine keeps a task for its next run all the same.
	r.make(engine.Topic{Slots: 1, Retries: 1})
	token = r.leased("3", long).Token
	require.Equal(r.t, []bool{true}, r.settle(engine.Outcome{Token: token, As: engine.Pending, Error: "broken"}))
	token = r.leaseOne("a", long).Token
	require.Equal(r.t, []bool{true}, r.settle(engine.Outcome{Token: token, As: engine.Pending, NewRun: true}))
	last = r.leaseOne("a", long)
	require.Equal(r.t, 1, last.Attempts)
	require.Equal(r.t, []bool{true}, r.settle(engine.Outcome{Token: last.Token, As: engine.Done}))
	require.Equal(r.t, engine.None, r.get("3").State)
	r.idle(20 * time.Millisecond)
}

// testEvery checks that the tasks of Topic.Every are leased however often leases end, and that a run can be given up.
func testEvery(r *rig) {
	r.make(engine.Topic{Slots: 1, Retries: -1, Every: "1h"})
	r.set("1", past)
	for attempt := 1; attempt <= 3; attempt++ {
		require.Equal(r.t, attempt, r.ending(r.leaseOne("a", long)).Attempts)
	}
	last := r.leaseOne("b", long)
	require.Contains(r.t, last.Error, "the lease of a ended in attempt 3")
	require.Equal(r.t, []bool{true}, r.settle(engine.Outcome{Token: last.Token, As: engine.Pending, NewRun: true, Error: last.Error, After: long}))
	task := r.get("1")
	require.Equal(r.t, last.Error, task.Error)
	require.Equal(r.t, []int{0, 4, 4}, []int{task.Attempts, task.Calls, task.Failures})
	r.move("1", past)
	token := r.leaseOne("b", long).Token
	require.Equal(r.t, []bool{true}, r.settle(engine.Outcome{Token: token, As: engine.Pending, NewRun: true, After: long}))
	task = r.get("1")
	require.Equal(r.t, []int{0, 5, 4}, []int{task.Attempts, task.Calls, task.Failures}, "one of them has succeeded")

	// A topic can lose its schedule, and get one.
	r.make(engine.Topic{Retries: -1})
	r.set("2", past)
	r.ending(r.leaseOne("a", long))
	r.giveUp(r.leaseOne("node", long))
	require.Equal(r.t, engine.Dead, r.get("2").State)
	r.make(engine.Topic{Retries: -1, Every: "1h"})
	r.set("2", past)
	r.ending(r.leaseOne("a", long))
	require.Equal(r.t, 2, r.leaseOne("a", long).Attempts)
}

// testLogNewRun reads the log of a task with several runs. The last attempt of a run is Done
// or Dead there.
func testLogNewRun(r *rig) {
	r.make(engine.Topic{Slots: 1, Retain: long})
	version := r.set("1", past).Version
	failed := engine.Outcome{As: engine.Pending, Error: "first"}
	newRun, died := engine.Outcome{As: engine.Pending, NewRun: true}, engine.Outcome{As: engine.Pending, NewRun: true, Error: "last"}
	for i, outcome := range []engine.Outcome{failed, died, newRun, failed} {
		outcome.Token, outcome.Took = r.leaseOne(string(rune('a'+i)), long).Token, time.Duration(i)*time.Second
		require.Equal(r.t, []bool{true}, r.settle(outcome))
	}
	executions := r.executions("1", 10)
	for i := range executions {
		executions[i].Started = time.Time{}
	}
	require.Equal(r.t, []engine.Execution{
		{Version: version, Attempt: 1, Node: "d", Took: 3 * time.Second, As: engine.Pending, Error: "first"},
		{Version: version, Attempt: 1, Node: "c", Took: 2 * time.Second, As: engine.Done},
		{Version: version, Attempt: 2, Node: "b", Took: time.Second, As: engine.Dead, Error: "last"},
		{Version: version, Attempt: 1, Node: "a", As: engine.Pending, Error: "first"},
	}, executions)
	require.Equal(r.t, "first", r.get("1").Error)
	require.Equal(r.t, engine.Pending, r.remove("1").Was)

	// Without Retain the log has no attempt that succeeded.
	r.make(engine.Topic{Slots: 1})
	newRun.Token, newRun.After = r.leased("2", long).Token, long
	require.Equal(r.t, []bool{true}, r.settle(newRun))
	require.Empty(r.t, r.executions("2", 10))

	// It has no attempt that was not begun, of a run that was given up.
	failed.Token = r.leased("5", long).Token
	require.Equal(r.t, []bool{true}, r.settle(failed))
	require.Equal(r.t, []bool{true}, r.settle(engine.Outcome{Token: r.leaseOne("a", long).Token, As: engine.Pending, NewRun: true, Release: true, Error: "given up"}))
	executions = r.executions("5", 10)
	require.Len(r.t, executions, 1)
	require.Equal(r.t, "first", executions[0].Error)
	require.Equal(r.t, engine.Pending, r.remove("5").Was)

	// It has each failed run, until the end of the task.
	died.Token = r.leased("4", long).Token
	require.Equal(r.t, []bool{true}, r.settle(died))
	executions = r.executions("4", 10)
	require.Len(r.t, executions, 1)
	require.Equal(r.t, engine.Dead, executions[0].As)
	require.Equal(r.t, "last", executions[0].Error)
	last := r.leaseOne("a", long)
	require.Equal(r.t, []bool{true}, r.settle(engine.Outcome{Token: last.Token, As: engine.Done}))
	require.Empty(r.t, r.executions("4", 10))

	// The log goes with its task, also that of an earlier run.
	failed.Token = r.leased("3", long).Token
	require.Equal(r.t, []bool{true}, r.settle(failed))
	newRun.Token, newRun.After = r.leaseOne("a", long).Token, 0
	require.Equal(r.t, []bool{true}, r.settle(newRun))
	last = r.leaseOne("a", long)
	require.Equal(r.t, []bool{true}, r.settle(engine.Outcome{Token: last.Token, As: engine.Done}))
	require.Empty(r.t, r.executions("3", 10))
}

// testLogOfASet checks that a set begins another log, whatever has become of the task before it, and that nothing else
// does.
func testLogOfASet(r *rig) {
	for _, retain := range []time.Duration{0, long} {
		r.make(engine.Topic{Slots: 1, Retain: retain})
		first := engine.Outcome{As: engine.Pending, Error: "first"}
		for name, next := range map[string]func(id string){
			"failed":  func(string) {},
			"running": func(string) { r.leaseOne("b", long) },
			"dead": func(string) {
				require.Equal(r.t, []bool{true}, r.settle(engine.Outcome{Token: r.leaseOne("b", long).Token, As: engine.Dead}))
			},
			"replayed": func(id string) {
				require.Equal(r.t, []bool{true}, r.settle(engine.Outcome{Token: r.leaseOne("b", long).Token, As: engine.Dead}))
				require.Equal(r.t, engine.Dead, r.replay(id).Was)
			},
			"moved": func(id string) { require.Equal(r.t, engine.Pending, r.move(id, newDue).Was) },
			"new run": func(string) {
				require.Equal(r.t, []bool{true}, r.settle(engine.Outcome{Token: r.leaseOne("b", long).Token, As: engine.Pending, NewRun: true, After: long}))
			},
			"expired": func(string) { r.ending(r.leaseOne("b", long)); r.leaseOne("c", long) },
			"set, if it were absent": func(id string) {
				_, err := r.setLater([]string{id}, func(task *engine.Task) { task.IfAbsent = true })
				require.NoError(r.t, err)
			},
			"done": func(string) {
				require.Equal(r.t, []bool{true}, r.settle(engine.Outcome{Token: r.leaseOne("b", long).Token, As: engine.Done}))
			},
			"removed": func(id string) { require.Equal(r.t, engine.Pending, r.remove(id).Was) },
		} {
			id := fmt.Sprint(name, retain)
			first.Token = r.leased(id, long).Token
			require.Equal(r.t, []bool{true}, r.settle(first))
			next(id)
			log := r.executions(id, 10)
			if r.get(id).State == engine.None {
				require.Empty(r.t, log, "the log of %s goes with it", id)
			} else {
				require.NotEmpty(r.t, log, id)
				require.Equal(r.t, "first", log[len(log)-1].Error, "the log of %s stays", id)
			}
			version := r.set(id, newDue).Version
			require.Empty(r.t, r.executions(id, 10), "the log of %s is that of another task", id)
			r.move(id, past)
			first.Token = r.leaseOne("d", long).Token
			require.Equal(r.t, []bool{true}, r.settle(first))
			log = r.executions(id, 10)
			require.Len(r.t, log, 1, id)
			require.Greater(r.t, log[0].Version, version, id)
			r.remove(id)
		}
	}
}
