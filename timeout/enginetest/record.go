package enginetest

import (
	"maps"
	"strings"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/heartwheel-go/heartwheel/timeout/engine"
)

// trace is a Task.Trace.
var trace = map[string]string{
	engine.Traceparent: "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
	engine.Tracestate:  "congo=t61rcWkgMzE",
}

// options are a Task.Options.
var options = engine.Options{
	Retries: 1, Backoff: time.Minute, BackoffMax: 2 * time.Minute, Timeout: -1,
	NotAfter: time.Date(2999, 12, 31, 23, 59, 59, 999_000_000, time.UTC), Metadata: map[string]string{"customer": "7", "region": "eu-é"},
}

// sameOptions checks that a task has the options.
func (r *rig) sameOptions(task engine.Task) {
	r.t.Helper()
	require.True(r.t, options.NotAfter.Equal(task.Options.NotAfter), "NotAfter %v", task.Options.NotAfter)
	task.Options.NotAfter = options.NotAfter
	require.Equal(r.t, options, task.Options)
}

// ahead is how far Created may be after the engine's clock. An engine may take it from a version.
const ahead = 10 * time.Millisecond

// created checks that a task was created between two looks at the engine's clock.
func (r *rig) created(before, after time.Time, task engine.Task) {
	r.t.Helper()
	require.False(r.t, task.Created.Before(before.Truncate(time.Millisecond)), "Created %v is before %v", task.Created, before)
	require.False(r.t, task.Created.After(after.Add(ahead)), "Created %v is after %v", task.Created, after)
	require.Zero(r.t, task.Created.Nanosecond()%int(time.Millisecond))
}

// testRecord follows Created, Calls, Failures and Trace through the life of a task.
func testRecord(r *rig) {
	r.make(engine.Topic{Slots: 1, Retain: long, Retries: 1})
	tracked := func(id string, due time.Time) engine.Task {
		task := r.task(id, due)
		task.Trace, task.Options = maps.Clone(trace), options.Clone()
		return task
	}
	before := r.now()
	r.setAll(tracked("1", r.later()))
	first := r.get("1")
	r.created(before, r.now(), first)

	// same compares a task with the first look at it, and its counts with the wanted ones.
	same := func(task engine.Task, attempts, calls, failures int) {
		r.t.Helper()
		sameTime(r.t, first.Created, task.Created, "Created")
		require.Equal(r.t, trace, task.Trace)
		r.sameOptions(task)
		require.Equal(r.t, "payload of "+first.ID, string(task.Payload))
		require.Nil(r.t, task.Callback)
		require.Equal(r.t, []int{attempts, calls, failures}, []int{task.Attempts, task.Calls, task.Failures}, "attempts, calls and failures of a task that is %v", task.State)
	}
	end := func(leased engine.Leased, outcome engine.Outcome) engine.Task {
		r.t.Helper()
		outcome.Token = leased.Token
		require.Equal(r.t, []bool{true}, r.settle(outcome))
		return r.get(leased.ID)
	}
	newRun := engine.Outcome{As: engine.Pending, NewRun: true}
	same(first, 0, 0, 0)
	time.Sleep(20 * time.Millisecond) // so that another Created would be another one
	r.move("1", newDue)
	r.move("1", past)
	same(r.get("1"), 0, 0, 0)
	leased := r.leaseOne("a", long)
	same(leased.Task, 1, 1, 0)
	require.Equal(r.t, []bool{true}, r.extend(2*long, leased.Token))
	same(r.get("1"), 1, 1, 0)
	same(end(leased, engine.Outcome{As: engine.Pending, Release: true}), 0, 0, 0)
	same(end(r.leaseOne("a", long), engine.Outcome{As: engine.Pending, Error: strings.Repeat("broken", 5) + "\xff", After: long}), 1, 1, 1)
	r.move("1", past)
	same(r.get("1"), 1, 1, 1)
	leased = r.leaseOne("a", long)
	same(leased.Task, 2, 2, 1)
	same(end(leased, newRun), 0, 2, 1)
	same(end(r.leaseOne("a", long), newRun), 0, 3, 1)
	r.move("1", past)
	same(r.get("1"), 0, 3, 1)

	// A lease that ends unsettled was a call, and a failure.
	same(r.ending(r.leaseOne("a", long)).Task, 1, 4, 1)
	leased = r.ending(r.leaseOne("b", long))
	require.True(r.t, leased.Again)
	same(leased.Task, 2, 5, 2)
	same(r.giveUp(r.leaseOne("node", long)).Task, 3, 6, 3)
	same(r.get("1"), 2, 5, 3)
	require.Equal(r.t, engine.Dead, r.replay("1").Was)
	same(r.get("1"), 0, 5, 3)
	r.move("1", newDue)
	r.move("1", past)
	leased = r.leaseOne("a", long)
	same(leased.Task, 1, 6, 3)
	same(end(leased, engine.Outcome{As: engine.Dead, Error: "broken"}), 1, 6, 4)
	require.Equal(r.t, engine.Dead, r.replay("1").Was)
	leased = r.leaseOne("a", long)
	same(leased.Task, 1, 7, 4)
	same(end(leased, engine.Outcome{As: engine.Done}), 1, 7, 4)
	same(r.list(engine.Done, 10)[0], 1, 7, 4)

	// A set begins all of it again.
	before = r.now()
	r.set("1", past)
	task := r.get("1")
	r.created(before, r.now(), task)
	require.True(r.t, task.Created.After(first.Created))
	require.Nil(r.t, task.Trace)
	require.Zero(r.t, task.Options)
	require.Zero(r.t, task.Calls)
	require.Zero(r.t, task.Failures)

	// With a callback, and over a waiting task.
	task = tracked("1", past)
	task.Callback = &engine.Callback{Kind: "http", Target: "http://127.0.0.1/", Header: map[string]string{"a": "b"}}
	r.setAll(task)
	found := r.get("1")
	require.Equal(r.t, trace, found.Trace)
	require.Equal(r.t, task.Callback, found.Callback)
	leased = r.leaseOne("a", long)
	require.Equal(r.t, trace, leased.Trace)
	r.sameOptions(leased.Task)
	require.Equal(r.t, task.Callback, leased.Callback)
	task.Callback, task.Trace, task.Options = nil, nil, engine.Options{Metadata: options.Metadata}
	r.setAll(task)
	require.Equal(r.t, engine.Options{Metadata: options.Metadata}, r.get("1").Options)
	task.Trace, task.Options = map[string]string{}, engine.Options{Metadata: map[string]string{}}
	r.setAll(task)
	require.Zero(r.t, r.get("1").Options)
	require.Nil(r.t, r.get("1").Trace)
	require.Nil(r.t, r.get("1").Callback)

	// A removal cuts off the call under way.
	r.leaseOne("a", long)
	r.remove("1")
	task = r.get("1")
	require.Equal(r.t, []int{1, 1, 1}, []int{task.Attempts, task.Calls, task.Failures})

	// What is set in one batch, in part over an existing task.
	r.setAll(tracked("2", newDue), r.task("3", newDue), tracked("4", newDue))
	second := r.get("2").Created
	r.setAll(r.task("4", newDue), tracked("5", newDue), r.task("2", newDue))
	require.Nil(r.t, r.get("4").Trace)
	require.Equal(r.t, trace, r.get("5").Trace)
	require.False(r.t, r.get("2").Created.Before(second))
	absent := tracked("3", newDue)
	absent.IfAbsent = true
	third := r.get("3")
	r.setAll(absent)
	require.Equal(r.t, plain(third), plain(r.get("3")))
}
