package enginetest

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/heartwheel-go/heartwheel/timeout/engine"
)

// testLog tests the log of executions.
func testLog(r *rig) {
	r.make(engine.Topic{Slots: 2, Retain: long})
	require.Empty(r.t, r.executions("none", 10))
	version := r.set("1", past).Version
	require.Empty(r.t, r.executions("1", 10))
	started := r.now().Add(-time.Second).Truncate(time.Millisecond)
	outcomes := []engine.Outcome{
		{As: engine.Pending, Error: "first", Started: started, Took: 1500 * time.Microsecond},
		{As: engine.Pending, Release: true, Error: "not begun"},
		{As: engine.Pending, Error: "second", Started: started.Add(time.Millisecond), Took: 0},
		{As: engine.Done, Started: started.Add(time.Second), Took: time.Minute},
	}
	for i, outcome := range outcomes {
		outcome.Token = r.leaseOne(fmt.Sprint("node", i), long).Token
		require.Equal(r.t, []bool{true}, r.settle(outcome))
	}
	executions := r.executions("1", 10)
	require.Len(r.t, executions, 3, "what was not begun is no attempt")
	for i, execution := range executions {
		want := []engine.Execution{
			{Version: version, Attempt: 3, Node: "node3", Started: started.Add(time.Second), Took: time.Minute, As: engine.Done},
			{Version: version, Attempt: 2, Node: "node2", Started: started.Add(time.Millisecond), As: engine.Pending, Error: "second"},
			{Version: version, Attempt: 1, Node: "node0", Started: started, Took: 1500 * time.Microsecond, As: engine.Pending, Error: "first"},
		}[i]
		sameTime(r.t, want.Started, execution.Started, "Started")
		want.Started, execution.Started = time.Time{}, time.Time{}
		require.InDelta(r.t, want.Took, execution.Took, float64(time.Millisecond))
		want.Took, execution.Took = 0, 0
		require.Equal(r.t, want, execution, "the latest first")
	}
	require.Equal(r.t, executions[:2], r.executions("1", 2))
	require.Empty(r.t, r.executions("2", 10))

	token := r.leased("2", long).Token
	require.Equal(r.t, []bool{true}, r.settle(engine.Outcome{Token: token, As: engine.Dead, Error: "broken"}))
	require.Equal(r.t, []bool{false}, r.settle(engine.Outcome{Token: token, As: engine.Dead, Error: "stale"}))
	executions = r.executions("2", 10)
	require.Len(r.t, executions, 1, "what had no effect is not logged")
	require.Equal(r.t, engine.Dead, executions[0].As)
	require.Equal(r.t, "broken", executions[0].Error)
}

// testLogRetained checks that the log is kept for as long as the topic says.
func testLogRetained(r *rig) {
	topic := r.make(engine.Topic{Slots: 2, Retain: long})
	require.Equal(r.t, engine.DefaultRetainLog, topic.RetainLog)
	left := func() (left int) {
		r.t.Helper()
		r.maintain()
		for i := range 5 {
			left += len(r.executions(fmt.Sprint(i), 10))
		}
		return left
	}
	for i := range 5 {
		token := r.leased(fmt.Sprint(i), long).Token
		as := []engine.State{engine.Pending, engine.Dead, engine.Done}[i%3]
		require.Equal(r.t, []bool{true}, r.settle(engine.Outcome{Token: token, As: as, After: long, Error: "broken"}))
	}
	require.Equal(r.t, 5, left())
	topic.RetainLog = long
	r.make(topic)
	time.Sleep(short)
	require.Equal(r.t, 5, left(), "nothing is deleted before its time")
	topic.RetainLog = short / 2
	r.make(topic)
	r.eventually("the log is deleted after its time", func() bool { return left() == 0 })
	require.Equal(r.t, map[engine.State]int{engine.Pending: 2, engine.Dead: 2, engine.Done: 1}, r.sizes(), "and no task is")
}

// testWaker listens on both engines, or twice on the only one, while tasks are set and moved.
func testWaker(r *rig) {
	r.make(engine.Topic{Slots: 1})
	r.set("far", newDue)
	var heard atomic.Int64
	ctx, cancel := context.WithCancel(r.ctx)
	ended := make(chan error, 2)
	for _, e := range []engine.Engine{r.engine, r.second} {
		go func() {
			ended <- e.(engine.Waker).Wake(ctx, func(topic string) {
				if topic == r.topic {
					heard.Add(1)
				}
			}, func(engine.Key) {})
		}()
	}
	wakes := func(what string, change func()) {
		r.t.Helper()
		before := heard.Load()
		for start := time.Now(); ; change() { // again, since a call may be missing now and then
			for range 30 {
				if heard.Load() != before {
					return
				}
				time.Sleep(10 * time.Millisecond)
			}
			require.Less(r.t, time.Since(start), patient, "%s wakes nobody", what)
		}
	}
	soon := func() time.Time { return r.now().Add(20 * time.Millisecond) }
	wakes("a set", func() {
		r.remove("soon")
		r.set("soon", soon())
	})
	r.remove("soon")
	wakes("a move", func() {
		r.move("far", newDue)
		r.move("far", soon())
	})
	cancel()
	for range cap(ended) {
		select {
		case err := <-ended:
			require.NotErrorIs(r.t, err, engine.ErrClosed)
		case <-time.After(patient):
			require.Fail(r.t, "Wake does not return when its context has ended")
		}
	}
}

// testWakerEnded listens while the other engine, if there is one, ends leases.
func testWakerEnded(r *rig) {
	r.make(engine.Topic{Slots: 4, Retain: long})
	var mu sync.Mutex
	heard := make(map[string]int) // by ID
	listening := make(chan struct{})
	var once sync.Once
	r.listen(func(topic string) {
		if topic == "" {
			once.Do(func() { close(listening) })
		}
	}, func(key engine.Key) {
		mu.Lock()
		defer mu.Unlock()
		if key.Topic == r.topic {
			heard[key.ID]++
		}
	})
	select {
	case <-listening:
	case <-time.After(patient):
		require.Fail(r.t, "Wake does not say that it listens")
	}
	hears := func(what string, ids []string, end func() error) {
		r.t.Helper()
		for start := time.Now(); ; { // again, since a call may be missing now and then
			mu.Lock()
			clear(heard)
			mu.Unlock()
			for _, id := range ids {
				r.leased(id, long)
			}
			require.NoError(r.t, end())
			for range 100 {
				mu.Lock()
				all := heard[""] > 0 || !slices.ContainsFunc(ids, func(id string) bool { return heard[id] == 0 })
				mu.Unlock()
				if all {
					return
				}
				time.Sleep(10 * time.Millisecond)
			}
			require.Less(r.t, time.Since(start), patient, "%s tells nobody that it has ended a lease", what)
		}
	}
	remove := func(ids ...string) error {
		_, err := r.second.Remove(r.ctx, removals(r.keys(ids...)))
		return err
	}
	set := func(ids ...string) error {
		var tasks []engine.Task
		for _, id := range ids {
			tasks = append(tasks, r.task(id, newDue))
		}
		_, err := r.second.Set(r.ctx, tasks)
		return err
	}
	many := make([]string, 100)
	for i := range many {
		many[i] = fmt.Sprint("any of  many ", i)
	}
	hears("a set", []string{"a set"}, func() error { return set("a set") })
	hears("a set of many", many[:5], func() error { return set(many[:5]...) })
	hears("a set with IfAbsent beside another", []string{"new"}, func() error {
		_, err := r.second.Set(r.ctx, []engine.Task{{Topic: r.topic, ID: "absent", Due: newDue, IfAbsent: true}, r.task("new", newDue)})
		return err
	})
	hears("a removal", []string{"a removal"}, func() error { return remove("a removal") })
	hears("a removal of a missing task and more", many, func() error { return remove(append([]string{"none"}, many...)...) })
	hears("a drop", []string{"dropped"}, func() error {
		err := r.second.DropTopic(r.ctx, r.topic)
		r.make(engine.Topic{Slots: 4})
		return err
	})
}

// scanBefore returns the tasks due before until, page by page.
func (r *rig) scanBefore(slots []int, until time.Time, limit int) []engine.Wanted {
	r.t.Helper()
	var all []engine.Wanted
	var before time.Time
	cursor := ""
	for range 1000 {
		page, err := r.engine.(engine.Primary).ScanBefore(r.ctx, r.topic, slots, until, cursor, limit)
		require.NoError(r.t, err)
		require.LessOrEqual(r.t, len(page.Wanted), limit)
		all = append(all, page.Wanted...)
		for _, one := range page.Wanted {
			require.False(r.t, one.At.Before(before), "a page before was until %v, and %s is due at %v", before, one.ID, one.At)
		}
		if page.Next == "" {
			return all
		}
		require.False(r.t, page.Until.IsZero())
		cursor, before = page.Next, page.Until
	}
	require.Fail(r.t, "ScanBefore has no end")
	return nil
}

func testScanBefore(r *rig) {
	const slots = 4
	r.make(engine.Topic{Slots: slots, Retain: long})
	r.set("moved", newDue)
	r.move("moved", newDue.Add(long))
	require.Empty(r.t, r.scanBefore(nil, newDue.Add(time.Second), 10))
	r.remove("moved")
	for _, b := range []before{dead, done, removed, failed, running} {
		b.bring(r, b.name)
	}
	var tasks []engine.Task
	for i := range 50 {
		tasks = append(tasks, r.task(fmt.Sprint(i), newDue.Add(time.Duration(i/5)*time.Second)))
	}
	r.setAll(tasks...)
	ids := func(wanted []engine.Wanted) []string {
		ids := []string{}
		for _, one := range wanted {
			task := r.get(one.ID)
			require.Equal(r.t, task.Version, one.Version)
			sameTime(r.t, task.Until, one.At, "At")
			ids = append(ids, one.ID)
		}
		slices.Sort(ids)
		return slices.Compact(ids)
	}
	soon := []string{"failed", "running"}
	for _, limit := range []int{1, 7, 1000} {
		wanted := r.scanBefore(nil, newDue, limit)
		require.Equal(r.t, soon, ids(wanted), "before until, and not at it")
		wanted = r.scanBefore(nil, newDue.Add(5*time.Second), limit)
		require.True(r.t, slices.IsSortedFunc(wanted, func(a, b engine.Wanted) int { return a.At.Compare(b.At) }), "by time")
		require.Len(r.t, wanted, 27)
		require.Len(r.t, ids(wanted), 27)
		require.Len(r.t, ids(r.scanBefore(nil, newDue.Add(long), limit)), 52)
	}
	require.Empty(r.t, r.scanBefore(nil, past, 10))
	total := 0
	for slot := range slots {
		wanted := r.scanBefore([]int{slot}, newDue.Add(long), 10)
		total += len(wanted)
		for _, one := range wanted {
			require.Equal(r.t, slot, engine.Slot(one.ID, slots))
		}
	}
	require.Equal(r.t, 52, total)
	for _, limit := range []int{7, 1000} {
		for i := range 10 {
			r.move(fmt.Sprint(i), newDue.Add(time.Minute+time.Duration(limit)*time.Second))
		}
		require.Len(r.t, ids(r.scanBefore(nil, newDue.Add(long), limit)), 52)
		require.Len(r.t, r.scanBefore(nil, newDue.Add(5*time.Second), limit), 17)
	}
	_, err := r.engine.(engine.Primary).ScanBefore(r.ctx, r.topic, nil, newDue, "garbage", 10)
	require.ErrorIs(r.t, err, engine.ErrArgument)
}

func (r *rig) claim(lease time.Duration, wanted ...engine.Wanted) []engine.Claimed {
	r.t.Helper()
	claimed, err := r.engine.(engine.Primary).Claim(r.ctx, r.topic, "claimer", wanted, lease)
	require.NoError(r.t, err)
	require.Len(r.t, claimed, len(wanted))
	return claimed
}

func testClaim(r *rig) {
	r.make(engine.Topic{Slots: 4, Retries: 1})
	require.Empty(r.t, r.claim(long))
	r.set("due", past)
	r.set("other", past)
	r.set("later", newDue)
	wanted := func(id string) engine.Wanted {
		task := r.get(id)
		return engine.Wanted{ID: id, Version: task.Version, At: task.Until}
	}
	old := wanted("due")
	version := r.set("due", past).Version
	due := wanted("due")
	require.Equal(r.t, engine.Claimed{}, r.claim(long, old)[0], "that version is not there")
	claimed := r.claim(long, due, wanted("later"), engine.Wanted{ID: "none", Version: 1, At: past}, old)
	require.True(r.t, claimed[0].OK)
	leased := claimed[0].Leased
	require.Equal(r.t, r.key("due"), leased.Key())
	require.Equal(r.t, engine.Running, leased.State)
	require.Equal(r.t, version, leased.Version)
	require.Equal(r.t, 1, leased.Attempts)
	require.Equal(r.t, "claimer", leased.Node)
	require.Equal(r.t, "payload of due", string(leased.Payload))
	require.False(r.t, leased.Again)
	require.Equal(r.t, plain(leased.Task), plain(r.get("due")))
	require.False(r.t, claimed[1].OK)
	sameTime(r.t, newDue, claimed[1].At, "At of what is not due")
	for _, gone := range claimed[2:] {
		require.Equal(r.t, engine.Claimed{}, gone, "that version is not there")
	}

	busy := r.claim(long, due)[0]
	require.False(r.t, busy.OK)
	sameTime(r.t, leased.Until, busy.At, "At of what belongs to somebody")
	require.Equal(r.t, []bool{true}, r.extend(short, leased.Token))
	time.Sleep(short + 20*time.Millisecond)
	again := r.claim(long, due)[0]
	require.True(r.t, again.OK, "the lease has ended")
	require.True(r.t, again.Leased.Again)
	require.Equal(r.t, 2, again.Leased.Attempts)
	require.NotEqual(r.t, leased.Token.Lease, again.Leased.Token.Lease)
	require.Equal(r.t, []bool{false, true}, r.extend(short, leased.Token, again.Leased.Token))
	time.Sleep(short + 20*time.Millisecond)
	over := r.claim(long, due)[0]
	require.True(r.t, over.OK, "the caller decides whether an attempt is left")
	require.Equal(r.t, 3, over.Leased.Attempts)
	r.giveUp(over.Leased)
	require.Equal(r.t, engine.Dead, r.get("due").State)

	r.pause(true)
	require.False(r.t, r.claim(long, wanted("other"))[0].OK, "the topic is paused")
	require.Equal(r.t, engine.Pending, r.get("other").State)
	r.pause(false)
	other := r.claim(long, wanted("other"))[0]
	require.True(r.t, other.OK)
	require.Equal(r.t, []bool{true}, r.settle(engine.Outcome{Token: other.Leased.Token, As: engine.Done}))
	require.Equal(r.t, engine.None, r.get("other").State)
}

// testClaimedOnce has several nodes claim the same tasks.
func testClaimedOnce(r *rig) {
	const count = 100
	r.make(engine.Topic{Slots: 4})
	var tasks []engine.Task
	for i := range count {
		tasks = append(tasks, r.task(fmt.Sprint(i), past))
	}
	var wanted []engine.Wanted
	for i, answer := range r.setAll(tasks...) {
		wanted = append(wanted, engine.Wanted{ID: tasks[i].ID, Version: answer.Version, At: answer.Due})
	}
	var times [count]atomic.Int64
	var claiming sync.WaitGroup
	for i := range 4 {
		e := []engine.Engine{r.engine, r.second}[i%2].(engine.Primary)
		claiming.Go(func() {
			claimed, err := e.Claim(r.ctx, r.topic, fmt.Sprint(i), wanted, long)
			if err != nil {
				r.t.Errorf("Claim: %v", err)
				return
			}
			for i, one := range claimed {
				if one.OK {
					times[i].Add(1)
				}
			}
		})
	}
	claiming.Wait()
	for i := range times {
		// With SKIP LOCKED another node's lock is as good as a lease, but one node gets the task.
		require.EqualValues(r.t, 1, times[i].Load(), "task %d", i)
	}
}
