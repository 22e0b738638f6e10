package enginetest

import (
	"fmt"
	"maps"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/heartwheel-go/heartwheel/timeout/engine"
)

// testTopics checks the settings that an engine keeps of a topic.
func testTopics(r *rig) {
	made := r.make(engine.Topic{})
	require.Equal(r.t, engine.Topic{Name: r.topic}.WithDefaults(), made)
	require.Equal(r.t, made, r.find(r.topic))

	full := engine.Topic{
		Slots: 16, Retries: 3, Backoff: 1500 * time.Millisecond, BackoffMax: time.Minute, Lease: 5 * time.Second,
		Timeout: time.Second, Concurrency: 7, Rate: 2.5, Priority: 6, GlobalConcurrency: 100, GlobalRate: 20.5, Every: "CRON_TZ=Europe/Berlin 30 2 * * *", Retain: 24 * time.Hour, Paused: true,
		RetainDead: 30 * time.Hour, MaxDead: 12, RetainLog: 48 * time.Hour,
		Callback: &engine.Callback{Kind: "http", Target: "http://example.org/ü", Header: map[string]string{"A": "b"}, Timeout: time.Second, Final: []int{422}},
	}
	full.Name = r.topic
	require.NoError(r.t, r.engine.DropTopic(r.ctx, r.topic))
	require.Equal(r.t, full, r.make(full), "a new one can be paused")
	require.Equal(r.t, full, r.find(r.topic))

	same, err := r.engine.SetTopic(r.ctx, engine.Topic{Name: r.topic, Slots: 2, Retries: 9}, true)
	require.NoError(r.t, err, "only where it is new")
	require.Equal(r.t, full, same)
	require.Equal(r.t, full, r.find(r.topic))

	_, err = r.engine.SetTopic(r.ctx, engine.Topic{Name: r.topic, Slots: 8, Retries: 9}, false)
	require.ErrorIs(r.t, err, engine.ErrConflict)
	require.Contains(r.t, err.Error(), "16")
	require.Contains(r.t, err.Error(), "8")
	require.Equal(r.t, full, r.find(r.topic), "a conflict changes nothing")

	_, err = r.engine.SetTopic(r.ctx, engine.Topic{Name: r.topic, GlobalConcurrency: 15}, false)
	require.ErrorIs(r.t, err, engine.ErrArgument, "a slot would have no part")
	require.Contains(r.t, err.Error(), "GlobalConcurrency 15")
	require.Contains(r.t, err.Error(), "16")
	require.Equal(r.t, full, r.find(r.topic))

	bare := r.make(engine.Topic{Retries: -1, Pull: true})
	require.Equal(r.t, 16, bare.Slots, "no number leaves it as it is")
	require.Equal(r.t, engine.Topic{Name: r.topic, Slots: 16, Retries: -1, Pull: true, Paused: true}.WithDefaults(), bare, "all other fields are changed")
	require.Equal(r.t, bare, r.find(r.topic))

	require.NoError(r.t, r.engine.DropTopic(r.ctx, r.topic))
	require.Equal(r.t, 4, r.make(engine.Topic{GlobalConcurrency: 7}).Slots, "a new one has no more slots than places")

	require.NoError(r.t, r.engine.DropTopic(r.ctx, r.topic))
	extreme := engine.Topic{
		Name: r.topic, Slots: 16, Retries: engine.MaxRetries, Backoff: 1, BackoffMax: engine.MaxDuration, Lease: engine.MaxDuration, Timeout: math.MinInt64,
		Concurrency: engine.MaxConcurrency, Rate: engine.MinRate, Priority: engine.MaxPriority, GlobalConcurrency: engine.MaxGlobalConcurrency,
		GlobalRate: engine.MaxRate, Every: engine.MaxDuration.String(), Retain: engine.MaxDuration, RetainDead: 1, MaxDead: math.MinInt, RetainLog: 1,
	}
	require.NoError(r.t, extreme.Check())
	require.Equal(r.t, extreme, r.make(extreme), "all that is allowed can be kept")
	require.Equal(r.t, extreme, r.find(r.topic))

	longest := "A.b_c:d-9" + strings.Repeat("x", engine.MaxTopic-9)
	names := []string{longest}
	for _, end := range []string{"-B", "-a", "_a", ".a", ":a", "-A", "-a1", "-a-", "aa"} { // a language has another order
		names = append(names, r.topic+end)
	}
	for _, name := range names {
		defer func() { require.NoError(r.t, r.engine.DropTopic(r.ctx, name)) }()
		_, err = r.engine.SetTopic(r.ctx, engine.Topic{Name: name, Slots: 1}, true)
		require.NoError(r.t, err)
	}
	topics, err := r.engine.Topics(r.ctx)
	require.NoError(r.t, err)
	require.True(r.t, slices.IsSortedFunc(topics, func(a, b engine.Topic) int { return strings.Compare(a.Name, b.Name) }), "by name")
	require.Equal(r.t, longest, r.find(longest).Name)
}

func (r *rig) find(name string) engine.Topic {
	r.t.Helper()
	topics, err := r.second.Topics(r.ctx)
	require.NoError(r.t, err)
	i := slices.IndexFunc(topics, func(t engine.Topic) bool { return t.Name == name })
	require.NotEqual(r.t, -1, i, "there is no topic %s", name)
	return topics[i]
}

// testGrowing makes the number of slots grow under tasks of all states.
func testGrowing(r *rig) {
	const each = 24
	topic := r.make(engine.Topic{Slots: 2, Retain: long})
	var tokens []engine.Token
	versions := map[string]int64{}
	r.setEach("running", each, past)
	order := map[string]engine.Token{}
	for _, leased := range r.lease(each, long) {
		order[leased.ID] = leased.Token
	}
	for i := range each {
		tokens = append(tokens, order[fmt.Sprint("running", i)])
	}
	failing := r.leased("failing", long).Token
	dead := r.leased("dead", long).Token
	require.Equal(r.t, []bool{true}, r.settle(engine.Outcome{Token: dead, As: engine.Dead, Error: "broken"}))
	failed := r.leased("failed", long).Token
	require.Equal(r.t, []bool{true}, r.settle(engine.Outcome{Token: failed, As: engine.Pending, After: long, Error: "broken"}))
	for _, name := range []string{"waiting", "due", "moved", "removed", "replaced"} {
		due := newDue
		if name == "due" {
			due = past
		}
		maps.Copy(versions, r.setEach(name, each, due))
	}
	deadBefore, failedBefore := r.get("dead"), r.get("failed")

	for _, topic.Slots = range []int{8, 32} {
		require.Equal(r.t, topic, r.make(topic))
		require.Equal(r.t, topic, r.find(r.topic))
	}
	require.Equal(r.t, plain(deadBefore), plain(r.get("dead")))
	require.Equal(r.t, plain(failedBefore), plain(r.get("failed")))
	for i := range each {
		id := fmt.Sprint("moved", i)
		moved := r.move(id, past)
		require.Equal(r.t, engine.Pending, moved.Was)
		require.Greater(r.t, moved.Version, versions[id])
		versions[id] = moved.Version
		require.Equal(r.t, engine.Pending, r.remove(fmt.Sprint("removed", i)).Was)
		require.Equal(r.t, engine.Removed, r.remove(fmt.Sprint("removed", i)).Was)
		id = fmt.Sprint("replaced", i)
		replaced := r.set(id, past)
		require.Equal(r.t, engine.Pending, replaced.Was)
		require.Greater(r.t, replaced.Version, versions[id])
		versions[id] = replaced.Version
	}
	require.Equal(r.t, engine.Dead, r.replay("dead").Was)
	require.Equal(r.t, engine.Running, r.set("running0", past).Was)
	require.Equal(r.t, engine.Running, r.remove("running1").Was)

	// A due task comes once, whatever slots are asked for.
	got := map[string]engine.Leased{}
	want := 3*each + 2
	r.eventually("all that is due is leased", func() bool {
		for _, leased := range r.leaseBatch(engine.Ask{Max: 50, Slots: r.someSlots(topic.Slots)}).Leased {
			require.NotContains(r.t, got, leased.ID, "is leased twice")
			got[leased.ID] = leased
		}
		_, err := r.purge(r.ctx, r.engine)
		require.NoError(r.t, err)
		return len(got) == want
	})
	for _, name := range []string{"due", "moved", "replaced"} {
		for i := range each {
			id := fmt.Sprint(name, i)
			require.Contains(r.t, got, id)
			require.Equal(r.t, versions[id], got[id].Version)
			require.Equal(r.t, "payload of "+id, string(got[id].Payload))
		}
	}
	require.Contains(r.t, got, "dead")
	require.NotEqual(r.t, dead.Lease, got["dead"].Token.Lease)
	require.NotEqual(r.t, tokens[0].Lease, got["running0"].Token.Lease, "a lease has a number of its own for ever")

	// Leases from before the growth still count, except for the void ones.
	want = each - 2
	held := r.extend(long, tokens...)
	require.Equal(r.t, append([]bool{false, false}, slices.Repeat([]bool{true}, want)...), held)
	var outcomes []engine.Outcome
	for _, token := range tokens {
		outcomes = append(outcomes, engine.Outcome{Token: token, As: engine.Done})
	}
	require.Equal(r.t, held, r.settle(outcomes...))
	require.Equal(r.t, []bool{true}, r.settle(engine.Outcome{Token: failing, As: engine.Pending, Error: "late"}))
	r.maintain()
	late := r.lease(1, long)[0]
	require.Equal(r.t, "failing", late.ID)
	require.Equal(r.t, 2, late.Attempts)
	require.Equal(r.t, "late", late.Error)
	r.maintain()
	r.idle(50 * time.Millisecond)
	require.Equal(r.t, map[engine.State]int{
		engine.Pending: each + 1, engine.Running: 3*each + 3, engine.Done: want, engine.Removed: each + 1,
	}, r.sizes())
}

// setEach sets count tasks in one call, and returns their versions.
func (r *rig) setEach(name string, count int, due time.Time) map[string]int64 {
	r.t.Helper()
	tasks := make([]engine.Task, count)
	for i := range tasks {
		tasks[i] = r.task(fmt.Sprint(name, i), due)
	}
	versions := map[string]int64{}
	for i, answer := range r.setAll(tasks...) {
		versions[tasks[i].ID] = answer.Version
	}
	return versions
}

// someSlots returns all slots, and now and then two halves of them.
func (r *rig) someSlots(slots int) []int {
	var some []int
	switch half := rand.IntN(3); half {
	case 0, 1:
		for slot := half; slot < slots; slot += 2 {
			some = append(some, slot)
		}
	}
	return some
}

// sizes counts by listing.
func (r *rig) sizes() map[engine.State]int {
	r.t.Helper()
	sizes := map[engine.State]int{}
	for state := engine.Pending; state <= engine.Removed; state++ {
		if listed := r.list(state, 100); len(listed) > 0 {
			sizes[state] = len(listed)
		}
	}
	return sizes
}

// testDropped drops a topic and makes it anew.
func testDropped(r *rig) {
	r.make(engine.Topic{Slots: 8, Retain: long})
	versions := r.setEach("", 20, r.later())
	kept := r.leased("kept", long)
	gone := r.leased("gone", long)
	require.Equal(r.t, []bool{true}, r.settle(engine.Outcome{Token: gone.Token, As: engine.Dead}))
	dead := engine.Query{Topic: r.topic, State: engine.Dead}
	for _, e := range []engine.Engine{r.engine, r.second} { // both know the topic
		page, err := e.List(r.ctx, dead)
		require.NoError(r.t, err)
		require.Len(r.t, page.Tasks, 1)
	}
	require.NoError(r.t, r.engine.DropTopic(r.ctx, r.topic))
	for _, e := range []engine.Engine{r.engine, r.second} {
		page, err := e.List(r.ctx, dead)
		require.NoError(r.t, err)
		require.Empty(r.t, page.Tasks)
		if engine.Logs(e) {
			executions, err := e.(engine.Log).Executions(r.ctx, gone.Key(), 10)
			require.NoError(r.t, err)
			require.Empty(r.t, executions)
		}
		if primary, ok := e.(engine.Primary); ok {
			page, _ := primary.ScanBefore(r.ctx, r.topic, nil, r.now().Add(2*long), "", 10) // it may be an error
			require.Empty(r.t, page.Wanted)
		}
	}
	err := r.engine.DropTopic(r.ctx, r.topic)
	require.ErrorIs(r.t, err, engine.ErrNotFound)
	require.Contains(r.t, err.Error(), r.topic)
	answers, err := r.engine.Set(r.ctx, []engine.Task{r.task("0", past)})
	require.NoError(r.t, err)
	require.ErrorIs(r.t, answers[0].Err, engine.ErrNotFound)
	for _, e := range []engine.Engine{r.engine, r.second} {
		_, err = e.Count(r.ctx, r.topic)
		require.ErrorIs(r.t, err, engine.ErrNotFound)
	}

	r.make(engine.Topic{Slots: 8})
	r.maintain()
	require.Empty(r.t, r.sizes())
	for _, task := range r.getAll("0", "kept", "gone") {
		require.Equal(r.t, engine.None, task.State)
	}
	for id, version := range r.setEach("", 20, r.later()) {
		require.Greater(r.t, version, versions[id], "a version is given twice")
	}
	leased := r.leased("kept", long)
	require.NotEqual(r.t, kept.Token.Lease, leased.Token.Lease, "a lease is given twice")
	require.Equal(r.t, []bool{false, false}, r.extend(long, kept.Token, gone.Token))
	require.Equal(r.t, []bool{false}, r.settle(engine.Outcome{Token: kept.Token, As: engine.Done}))
	require.Equal(r.t, engine.Running, r.get("kept").State)
}

// testSlots leases from some slots and from no others.
func testSlots(r *rig) {
	const slots = 4
	r.make(engine.Topic{Slots: slots})
	var tasks []engine.Task
	want := make([]int, slots)
	for i := range 60 {
		id := fmt.Sprint(i)
		if i%3 == 0 {
			id = fmt.Sprintf("{%d}/%d", i%9, i)
		}
		tasks = append(tasks, r.task(id, past))
		want[engine.Slot(id, slots)]++
	}
	r.setAll(tasks...)
	for _, own := range [][]int{{2}, {0, 3, 0}, {1}} { // a slot named twice is one slot
		total := 0
		for _, slot := range slices.Compact(slices.Sorted(slices.Values(own))) {
			total += want[slot]
		}
		got := 0
		r.eventually("all tasks of the slots are leased", func() bool {
			batch := r.leaseBatch(engine.Ask{Max: []int{7, math.MaxInt}[rand.IntN(2)], Slots: own})
			for _, leased := range batch.Leased {
				require.Contains(r.t, own, engine.Slot(leased.ID, slots))
			}
			got += len(batch.Leased)
			return got == total
		})
		require.Empty(r.t, r.leaseBatch(engine.Ask{Max: 7, Slots: own}).Leased)
	}
	r.leased("0", long)
	r.set("0", past)
	own := engine.Slot("0", slots)
	for _, strange := range [][]int{{slots}, {-1}, {slots, 1 << 20}, {1<<16 + own}, {slots, slots + 1, slots + 2, slots + 3}} {
		require.Empty(r.t, r.leaseBatch(engine.Ask{Max: 7, Slots: strange}).Leased, "there are no such slots: %v", strange)
	}
	r.eventually("a slot among others that there are not is leased from", func() bool {
		return len(r.leaseBatch(engine.Ask{Max: 7, Slots: []int{-1, own, slots}}).Leased) == 1
	})
}
