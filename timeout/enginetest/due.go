package enginetest

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/heartwheel-go/heartwheel/timeout/engine"
)

// testTimes checks how action times are kept.
func testTimes(r *rig) {
	r.make(engine.Topic{Slots: 2})
	before := r.now()
	require.WithinDuration(r.t, time.Now(), before, time.Minute)
	time.Sleep(5 * time.Millisecond)
	require.Greater(r.t, r.now(), before, "time goes on")
	base := time.UnixMilli(4_102_444_800_123)
	for i, due := range []time.Time{
		base, base.Add(1), base.Add(999_999), base.Add(time.Millisecond),
		time.UnixMilli(0), time.UnixMilli(1), time.Date(9999, 12, 31, 23, 59, 59, 999_000_000, time.UTC),
		base.In(time.FixedZone("east", 5*3600)),
	} {
		id := fmt.Sprint(i)
		answer := r.set(id, due)
		sameTime(r.t, due, answer.Due, "Answer.Due")
		task := r.get(id)
		sameTime(r.t, due, task.Due, "Due")
		sameTime(r.t, due, task.Until, "Until")
		require.Zero(r.t, task.Due.Nanosecond()%int(time.Millisecond))
		if due.Year() > 2000 {
			moved := due.Add(-time.Hour)
			sameTime(r.t, moved, r.move(id, moved).Due, "Answer.Due of a move")
			sameTime(r.t, moved, r.get(id).Due, "Due after a move")
		}
	}

	// The first moment is a time like any other, also for an outcome and for a task that stays.
	epoch := r.task("epoch", time.UnixMilli(0))
	r.setAll(epoch)
	epoch.IfAbsent = true
	sameTime(r.t, epoch.Due, r.setAll(epoch)[0].Due, "Answer.Due")
	for _, newRun := range []bool{false, true, false} {
		var leased engine.Leased
		r.eventually("it is leased", func() bool {
			for _, one := range r.leaseBatch(engine.Ask{Max: 100}).Leased {
				if one.ID == epoch.ID {
					leased = one
				}
			}
			return leased.ID != ""
		})
		sameTime(r.t, epoch.Due, leased.Due, "Due")
		require.Equal(r.t, []bool{true}, r.settle(engine.Outcome{Token: leased.Token, As: engine.Pending, NewRun: newRun, Due: epoch.Due}))
		sameTime(r.t, epoch.Due, r.get(epoch.ID).Until, "Until")
	}

	// After counts from the call, by the engine's clock.
	for _, after := range []time.Duration{0, 1, time.Millisecond, 1500 * time.Microsecond, long, 1<<63 - 1} {
		before := r.now()
		task := r.task("after", time.Time{})
		task.After = after
		set := r.setAll(task)[0]
		r.between(before, after, set.Due)
		before = r.now()
		answers, err := r.engine.Move(r.ctx, []engine.Move{{Key: r.key("after"), After: after}})
		r.between(before, after, r.one(answers, err).Due)
	}
}

// between checks due: it must be a moment between before and now, plus the duration after. An
// engine may count the millisecond already begun.
func (r *rig) between(before time.Time, after time.Duration, due time.Time) {
	r.t.Helper()
	ms := engine.CeilMillis(after)
	require.GreaterOrEqual(r.t, due.UnixMilli(), before.UnixMilli()+ms)
	require.LessOrEqual(r.t, due.UnixMilli(), r.now().UnixMilli()+ms+1)
}

// testNeverEarly makes tasks come due one after the other while several callers ask.
func testNeverEarly(r *rig) {
	const count = 200
	r.make(engine.Topic{Slots: 8})
	tasks := make([]engine.Task, count)
	for i := range tasks {
		tasks[i] = r.task(fmt.Sprint(i), time.Time{})
		tasks[i].After = time.Duration(rand.Int64N(int64(800 * time.Millisecond)))
	}
	dues := map[string]int64{}
	for i, answer := range r.setAll(tasks...) {
		dues[tasks[i].ID] = answer.Due.UnixMilli()
	}
	var got atomic.Int64
	var asking sync.WaitGroup
	start := time.Now()
	for i, e := range []engine.Engine{r.engine, r.second, r.engine} {
		asking.Go(func() {
			for got.Load() < count && time.Since(start) < patient {
				batch, err := e.Lease(r.ctx, r.ask(engine.Ask{Node: fmt.Sprint(i), Max: 20}))
				now, errNow := e.Now(r.ctx)
				if err != nil || errNow != nil {
					r.t.Errorf("Lease: %v, Now: %v", err, errNow)
					return
				}
				for _, leased := range batch.Leased {
					due := dues[leased.ID]
					if leased.Due.UnixMilli() != due || batch.Now.UnixMilli() < due || now.UnixMilli() < due {
						r.t.Errorf("%s is due at %d, has %d and is leased at %d, before %d", leased.ID, due, leased.Due.UnixMilli(), batch.Now.UnixMilli(), now.UnixMilli())
					}
				}
				got.Add(int64(len(batch.Leased)))
				time.Sleep(time.Millisecond)
			}
		})
	}
	asking.Wait()
	require.EqualValues(r.t, count, got.Load())
}

// testOrder makes many tasks of one slot and one part due at once.
func testOrder(r *rig) {
	const count = 60
	r.make(engine.Topic{Slots: 1})
	tasks := make([]engine.Task, count)
	id := func(place int) string { return fmt.Sprint("{same}/", place) }
	for i, place := range rand.Perm(count) {
		tasks[i] = r.task(id(place), past.Add(time.Duration(place)*time.Millisecond))
	}
	r.setAll(tasks...)
	require.Equal(r.t, engine.Pending, r.move(id(59), past.Add(-time.Hour)).Was)
	require.Equal(r.t, engine.Pending, r.remove(id(30)).Was)
	var got []string
	for len(got) < count-1 {
		for _, leased := range r.lease(min(7, count-1-len(got)), long) {
			got = append(got, leased.ID)
		}
	}
	want := []string{id(59)}
	for i := range 59 {
		if i != 30 {
			want = append(want, id(i))
		}
	}
	require.Equal(r.t, want, got, "the earliest first")
}

// testNext checks Batch.Next.
func testNext(r *rig) {
	r.make(engine.Topic{Slots: 4, Retain: long})
	woken := r.woken()
	for _, b := range []before{done, dead, removed} { // nothing is due in them
		b.bring(r, b.name)
	}
	r.set("far", r.later())
	for i := range 32 { // each slot has one, so an earlier end of a lease has to be seen beside it
		r.set(fmt.Sprint("later", i), r.later())
	}
	batch := r.leaseBatch(engine.Ask{Max: 10})
	require.Empty(r.t, batch.Leased)
	if !batch.Next.IsZero() {
		require.Greater(r.t, batch.Next.UnixMilli(), batch.Now.UnixMilli(), "asking at once is of no use")
		require.LessOrEqual(r.t, batch.Next.UnixMilli(), r.get("far").Due.UnixMilli())
	}

	for i := range 10 {
		r.set(fmt.Sprint(i), past)
	}
	leased := 0
	r.eventually("ten tasks are leased", func() bool {
		batch = r.leaseBatch(engine.Ask{Max: 3})
		leased += len(batch.Leased)
		if leased < 10 && len(batch.Leased) > 0 {
			require.False(r.t, batch.Next.IsZero())
			require.LessOrEqual(r.t, batch.Next.UnixMilli(), batch.Now.UnixMilli(), "there is more at once")
		}
		return leased == 10
	})

	// A caller guided by Next and the calls to wake misses nothing.
	set := r.setAll(engine.Task{Topic: r.topic, ID: "soon", After: short})[0]
	soon := r.follow(woken, set.Due, short)
	require.Equal(r.t, "soon", soon.ID)
	again := r.follow(woken, soon.Until, long)
	require.Equal(r.t, "soon", again.ID, "the end of a lease counts, too")
	require.Equal(r.t, []bool{true}, r.settle(engine.Outcome{Token: again.Token, As: engine.Pending, After: short}))
	retried := r.follow(woken, r.get("soon").Until, long)
	require.Equal(r.t, "soon", retried.ID)
	answers, err := r.engine.Move(r.ctx, []engine.Move{{Key: r.key("far"), After: short}})
	moved := r.follow(woken, r.one(answers, err).Due, long)
	require.Equal(r.t, "far", moved.ID)
}

// woken returns a channel with an element after each wake of this topic, or nil if the engine
// is no Waker.
func (r *rig) woken() <-chan struct{} {
	if _, ok := r.engine.(engine.Waker); !ok {
		return nil
	}
	woken := make(chan struct{}, 1)
	r.listen(func(topic string) {
		if topic == r.topic {
			select {
			case woken <- struct{}{}:
			default:
			}
		}
	}, func(engine.Key) {})
	return woken
}

// listen calls Wake until the end of the test.
func (r *rig) listen(wake func(topic string), ended func(key engine.Key)) {
	ctx, cancel := context.WithCancel(r.ctx)
	done := make(chan struct{})
	go func() {
		defer close(done)
		if err := r.engine.(engine.Waker).Wake(ctx, wake, ended); ctx.Err() == nil {
			r.t.Errorf("Wake returned before its context ended: %v", err)
		}
	}()
	r.t.Cleanup(func() {
		cancel()
		<-done
	})
}

// follow asks only when the engine says so, until it leases a task due at that time.
func (r *rig) follow(woken <-chan struct{}, due time.Time, lease time.Duration) engine.Leased {
	r.t.Helper()
	for start := time.Now(); ; {
		require.Less(r.t, time.Since(start), patient, "nobody says that there is something due")
		batch := r.leaseBatch(engine.Ask{Max: 10, Lease: lease})
		if len(batch.Leased) > 0 {
			require.Len(r.t, batch.Leased, 1)
			return batch.Leased[0]
		}
		wait, late := patient, batch.Next.UnixMilli() > max(due.UnixMilli(), batch.Now.UnixMilli())
		if !batch.Next.IsZero() {
			wait = max(batch.Next.Sub(batch.Now), time.Millisecond)
		}
		if batch.Next.IsZero() || late {
			require.NotNil(r.t, woken, "an engine that does not wake must tell when something is due")
		}
		select {
		case <-woken:
		case <-time.After(wait):
			require.False(r.t, late, "Next is later than what is due next, and nobody has woken")
		}
	}
}

// testPaused checks that a paused topic accepts and settles tasks, and leases none.
func testPaused(r *rig) {
	topic := r.make(engine.Topic{Slots: 4, Retries: -1})
	first := r.leased("first", long)
	r.ending(r.leased("lost", long))
	r.pause(true)
	require.Equal(r.t, topic.Lease, r.find(r.topic).Lease, "all else stays as it is")
	topic.Lease = 2 * topic.Lease // a change of another setting leaves it paused
	require.True(r.t, r.make(topic).Paused)
	require.Equal(r.t, engine.None, r.set("second", past).Was)
	r.idle(2 * short)
	require.Equal(r.t, engine.Running, r.get("lost").State, "nothing is leased in a topic that is paused")
	require.Equal(r.t, []bool{true}, r.extend(long, first.Token))
	require.Equal(r.t, []bool{true}, r.settle(engine.Outcome{Token: first.Token, As: engine.Done}))
	require.Equal(r.t, engine.None, r.get("first").State)
	r.pause(false)
	require.Equal(r.t, topic, r.find(r.topic))
	topic.Paused = true
	require.False(r.t, r.make(topic).Paused, "it is for a topic that is made")
	again := make(map[string]bool)
	for _, leased := range r.lease(2, long) { // what has waited goes on
		again[leased.ID] = leased.Again
	}
	require.Equal(r.t, map[string]bool{"lost": true, "second": false}, again)

	// Neither takes back a simultaneous change by the other.
	const rounds = 9
	together(2, func(i int) {
		for n := range rounds {
			var err error
			if i == 0 {
				_, err = r.second.Pause(r.ctx, r.topic, n%2 == 0, time.Time{})
			} else {
				_, err = r.engine.SetTopic(r.ctx, engine.Topic{Name: r.topic, Concurrency: n + 1}, false)
			}
			if err != nil {
				r.t.Errorf("round %d: %v", n, err)
			}
		}
	})
	last := r.find(r.topic)
	require.True(r.t, last.Paused)
	require.Equal(r.t, rounds, last.Concurrency)

	none := unique("none")
	_, err := r.engine.Pause(r.ctx, none, true, time.Time{})
	require.ErrorIs(r.t, err, engine.ErrNotFound)
	require.Contains(r.t, err.Error(), none)
}
