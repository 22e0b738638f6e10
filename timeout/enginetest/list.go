package enginetest

import (
	"encoding/base64"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/heartwheel-go/heartwheel/timeout/engine"
)

// list returns all tasks of a state, page by page.
func (r *rig) list(state engine.State, limit int) []engine.Task {
	r.t.Helper()
	return r.listWhile(state, limit, func() {})
}

// listWhile does something after the first page.
func (r *rig) listWhile(state engine.State, limit int, something func()) []engine.Task {
	r.t.Helper()
	return r.pages(engine.Query{Topic: r.topic, State: state, Limit: limit}, something)
}

// pages returns the tasks of all pages, and does something after the first one.
func (r *rig) pages(query engine.Query, something func()) []engine.Task {
	r.t.Helper()
	var all []engine.Task
	for i := range 10_000 {
		if i == 1 {
			something()
		}
		page, err := r.engine.List(r.ctx, query)
		require.NoError(r.t, err)
		require.LessOrEqual(r.t, len(page.Tasks), query.Limit)
		bytes := 0
		for _, task := range page.Tasks {
			bytes += len(task.Payload)
			require.Equal(r.t, query.State, task.State)
			require.Equal(r.t, r.topic, task.Topic)
			require.True(r.t, query.OmitPayload || task.PayloadBytes == 0, "the payload is there")
		}
		require.LessOrEqual(r.t, bytes, engine.MaxPageBytes)
		all = append(all, page.Tasks...)
		if page.Next == "" {
			return all
		}
		query.Cursor = page.Next
	}
	require.Fail(r.t, "a list has no end")
	return nil
}

// testListLarge lists payloads too large for more than a few on a page, in slots of few tasks
// and of many. Some tasks have no payload.
func testListLarge(r *rig) {
	r.make(engine.Topic{Slots: 4})
	const large, small = 7, 40
	payload := make([]byte, engine.MaxPayload)
	var tasks []engine.Task
	for i := range large + small {
		task := r.task(fmt.Sprint(i), newDue.Add(time.Duration(rand.IntN(50))*time.Millisecond))
		if i < large {
			task.Payload = payload[:engine.MaxPayload-i]
		}
		tasks = append(tasks, task)
	}
	r.setAll(tasks...)
	slots := 4
	for _, limit := range []int{5, engine.MaxPage, 5, engine.MaxPage} {
		sizes := map[string]int{}
		grow := func() {
			r.make(engine.Topic{Slots: slots})
			slots *= 4
		}
		for _, task := range r.listWhile(engine.Pending, limit, grow) {
			require.NotContains(r.t, sizes, task.ID)
			sizes[task.ID] = len(task.Payload)
		}
		require.Len(r.t, sizes, large+small, "limit %d", limit)
		for _, task := range tasks {
			require.Equal(r.t, len(task.Payload), sizes[task.ID], "task %s", task.ID)
		}
	}
}

// testListOmitPayload lists tasks of each state without their payloads, and with all else.
func testListOmitPayload(r *rig) {
	r.make(engine.Topic{Slots: 4, Retain: long})
	const each = 3
	for _, b := range []before{failed, running, dead, done, removed} {
		for i := range each {
			b.bring(r, fmt.Sprint(b.name, i))
		}
	}
	callback := &engine.Callback{Kind: "http", Target: "http://127.0.0.1/", Header: map[string]string{"X": strings.Repeat("x", 300)}}
	trace := map[string]string{"traceparent": "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"}
	for i, payload := range []string{"", "small", strings.Repeat("large", engine.MaxPayload/5)} {
		for j, task := range []engine.Task{{}, {Callback: callback}, {Callback: callback, Trace: trace}, {Options: options}} {
			task.Topic, task.ID, task.Payload, task.Due = r.topic, fmt.Sprint("set", i, j), []byte(payload), newDue
			moved := task
			moved.ID = "moved" + task.ID
			r.setAll(task, moved)
			require.Equal(r.t, engine.Pending, r.move(moved.ID, newDue.Add(time.Minute)).Was)
		}
	}
	for state, count := range map[engine.State]int{
		engine.Pending: 24 + each, engine.Running: each, engine.Dead: each, engine.Done: each, engine.Removed: each,
	} {
		want := r.list(state, engine.MaxPage)
		for i, task := range want {
			want[i] = plain(task)
			want[i].Payload, want[i].PayloadBytes = nil, len(task.Payload)
		}
		for _, limit := range []int{1, 4, engine.MaxPage} {
			got := r.pages(engine.Query{Topic: r.topic, State: state, Limit: limit, OmitPayload: true}, func() {})
			require.Len(r.t, got, count)
			for i, task := range got {
				require.Nil(r.t, task.Payload)
				require.Equal(r.t, want[i], plain(task))
			}
		}
	}
}

func testList(r *rig) {
	r.make(engine.Topic{Slots: 4, Retain: long})
	for state := engine.Pending; state <= engine.Removed; state++ {
		require.Empty(r.t, r.list(state, 10))
	}
	const count = 107
	want := map[string]engine.Task{}
	var tasks []engine.Task
	for i := range count {
		due := newDue
		if i%2 == 0 { // half are due at the same time
			due = newDue.Add(time.Duration(rand.IntN(50)) * time.Millisecond)
		}
		tasks = append(tasks, r.task(fmt.Sprint(i), due))
	}
	r.setAll(tasks...)
	for _, task := range tasks {
		want[task.ID] = r.get(task.ID)
	}
	for _, limit := range []int{1, 7, 100, engine.MaxPage} {
		var last time.Time
		seen := map[string]bool{}
		for _, task := range r.list(engine.Pending, limit) {
			require.False(r.t, seen[task.ID], "%s is there twice", task.ID)
			seen[task.ID] = true
			require.Equal(r.t, plain(want[task.ID]), plain(task))
			require.False(r.t, task.Until.Before(last), "in the order of Until")
			last = task.Until
		}
		require.Len(r.t, seen, count, "limit %d", limit)
	}
	page, err := r.engine.List(r.ctx, engine.Query{Topic: r.topic, State: engine.Pending})
	require.NoError(r.t, err)
	require.Len(r.t, page.Tasks, 100)
	require.NotEmpty(r.t, page.Next)

	for _, b := range []before{failed, running, dead, done, removed} {
		b.bring(r, b.name)
	}
	require.Equal(r.t, map[engine.State]int{
		engine.Pending: count + 1, engine.Running: 1, engine.Done: 1, engine.Dead: 1, engine.Removed: 1,
	}, r.sizes())
	for _, b := range []before{running, dead, done, removed} {
		listed := r.list(b.state, 10)
		require.Equal(r.t, plain(r.get(b.name)), plain(listed[0]))
	}

	for _, cursor := range []string{
		"garbage", "!!", "0", " ", "\x00", page.Next + "x", page.Next[:len(page.Next)/2], page.Next[1:],
		base64.RawURLEncoding.EncodeToString([]byte("a")), base64.StdEncoding.EncodeToString([]byte("{}")), "é",
	} {
		got, err := r.engine.List(r.ctx, engine.Query{Topic: r.topic, State: engine.Pending, Cursor: cursor})
		if err == nil { // a part of a cursor may happen to be a cursor
			require.Contains(r.t, page.Next+"x", cursor, "cursor %q has %d tasks", cursor, len(got.Tasks))
			continue
		}
		require.ErrorIs(r.t, err, engine.ErrArgument, "cursor %q", cursor)
	}
	got, err := r.engine.List(r.ctx, engine.Query{Topic: unique("none"), State: engine.Pending})
	require.NoError(r.t, err)
	require.Equal(r.t, engine.Page{}, got)
}

// testListUnderChange pages through a list while other callers set, move and remove tasks. Half of the others were moved before.
func testListUnderChange(r *rig) {
	r.make(engine.Topic{Slots: 4})
	const count = 120
	var tasks []engine.Task
	var moves []engine.Move
	for i := range count {
		due := newDue.Add(time.Duration(rand.IntN(100)) * time.Millisecond)
		tasks = append(tasks, r.task(fmt.Sprint("stays", i), due), r.task(fmt.Sprint("moves", i), due))
		if i%2 == 0 {
			moves = append(moves, engine.Move{Key: r.key(fmt.Sprint("stays", i)), Due: newDue.Add(time.Duration(rand.IntN(120)) * time.Millisecond)})
		}
	}
	r.setAll(tasks...)
	_, err := r.engine.Move(r.ctx, moves)
	require.NoError(r.t, err)
	stop := make(chan struct{})
	var changing sync.WaitGroup
	changing.Go(func() {
		for {
			select {
			case <-stop:
				return
			case <-time.After(time.Millisecond):
			}
			id, due := fmt.Sprint("moves", rand.IntN(count)), newDue.Add(time.Duration(rand.IntN(120)-10)*time.Millisecond)
			var err error
			switch rand.IntN(3) {
			case 0:
				_, err = r.second.Set(r.ctx, []engine.Task{r.task(id, due)})
			case 1:
				_, err = r.second.Move(r.ctx, []engine.Move{{Key: r.key(id), Due: due}})
			default:
				_, err = r.second.Remove(r.ctx, removals(r.keys(id)))
			}
			if err != nil {
				r.t.Errorf("change: %v", err)
				return
			}
		}
	})
	defer changing.Wait()
	defer close(stop)
	for _, limit := range []int{3, 7, 50} {
		seen := map[string]int{}
		for _, task := range r.list(engine.Pending, limit) {
			seen[task.ID]++
		}
		for i := range count {
			require.Equal(r.t, 1, seen[fmt.Sprint("stays", i)], "what is there throughout is on exactly one page")
		}
	}
}

func testCount(r *rig) {
	r.make(engine.Topic{Slots: 4, Retain: long})
	r.counts(engine.Counts{})
	set := time.Now()
	for i, b := range []before{waiting, failed, running, running, dead, dead, dead, done, removed, removed} {
		b.bring(r, fmt.Sprint(b.name, i))
	}
	r.counts(engine.Counts{Pending: 2, Running: 2, Dead: 3, Done: 1, Removed: 2})
	task := r.task("due", time.Time{})
	task.Due = r.now().Add(-time.Minute)
	r.setAll(task, r.task("later", r.now().Add(-time.Second)), r.task("future", newDue))
	got := r.counts(engine.Counts{Pending: 5, Running: 2, Dead: 3, Done: 1, Removed: 2, Due: 2})
	require.GreaterOrEqual(r.t, got.Lag, time.Minute-time.Millisecond)
	require.LessOrEqual(r.t, got.Lag, time.Minute+time.Since(set)+time.Second)
	for range 2 {
		r.lease(1, long)
	}
	r.counts(engine.Counts{Pending: 3, Running: 4, Dead: 3, Done: 1, Removed: 2})
	r.ending(r.leased("over", long))
	time.Sleep(2 * short)
	r.counts(engine.Counts{Pending: 3, Running: 5, Dead: 3, Done: 1, Removed: 2}) // a task whose lease has ended is not Pending

	none := unique("none")
	counts, err := r.engine.Count(r.ctx, none)
	require.ErrorIs(r.t, err, engine.ErrNotFound)
	require.Contains(r.t, err.Error(), none)
	require.Equal(r.t, engine.Counts{}, counts)
}

// counts waits for those counts: an engine may keep old ones for a moment.
func (r *rig) counts(want engine.Counts) engine.Counts {
	r.t.Helper()
	var got engine.Counts
	for start := time.Now(); ; time.Sleep(20 * time.Millisecond) {
		counts, err := r.engine.Count(r.ctx, r.topic)
		require.NoError(r.t, err)
		got = counts
		counts.Lag = 0
		if counts == want {
			break
		}
		if time.Since(start) > patient {
			require.Equal(r.t, want, counts)
		}
	}
	require.Equal(r.t, want.Due > 0, got.Lag > 0, "Lag is %v", got.Lag)
	return got
}

// testMaintain has kept tasks deleted after their time, and not before.
func testMaintain(r *rig) {
	topic := r.make(engine.Topic{Slots: 4, Retain: long})
	const each = 6
	for i := range each {
		for _, b := range []before{waiting, dead, done, removed} {
			b.bring(r, fmt.Sprint(b.name, i))
		}
	}
	r.maintain()
	kept := map[engine.State]int{engine.Pending: each, engine.Dead: each, engine.Done: each, engine.Removed: each}
	require.Equal(r.t, kept, r.sizes(), "nothing is deleted before its time")
	time.Sleep(short)
	topic.Retain = short / 2
	r.make(topic)
	r.eventually("what was kept for its time is deleted", func() bool {
		r.maintain()
		sizes := r.sizes()
		require.Equal(r.t, each, sizes[engine.Dead], "what is dead stays")
		require.Equal(r.t, each, sizes[engine.Pending])
		return sizes[engine.Done]+sizes[engine.Removed] == 0
	})
	r.counts(engine.Counts{Pending: each, Dead: each})
	require.Equal(r.t, engine.None, r.get("done1").State)
	require.Equal(r.t, engine.None, r.set("done1", newDue).Was)
	again := r.get("done1")
	require.Equal(r.t, []int{0, 0}, []int{again.Attempts, again.Calls}, "nothing is left of what was deleted")
	require.Equal(r.t, engine.None, r.remove("removed1").Was)
}
