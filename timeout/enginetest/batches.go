package enginetest

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/heartwheel-go/heartwheel/timeout/engine"
)

// testBatches tests empty batches, very large ones, and the same key twice in one batch.
func testBatches(r *rig) {
	r.make(engine.Topic{Slots: 8})
	r.emptyBatches()
	r.sameKeyTwice()
	r.strangers()
	r.manyAtOnce()
}

func (r *rig) emptyBatches() {
	r.t.Helper()
	for range 2 {
		answers, err := r.engine.Set(r.ctx, nil)
		require.NoError(r.t, err)
		require.Empty(r.t, answers)
		answers, err = r.engine.Move(r.ctx, nil)
		require.NoError(r.t, err)
		require.Empty(r.t, answers)
		answers, err = r.engine.Remove(r.ctx, nil)
		require.NoError(r.t, err)
		require.Empty(r.t, answers)
		answers, err = r.engine.Replay(r.ctx, nil)
		require.NoError(r.t, err)
		require.Empty(r.t, answers)
		tasks, err := r.engine.Get(r.ctx, nil)
		require.NoError(r.t, err)
		require.Empty(r.t, tasks)
		require.Empty(r.t, r.extend(long))
		r.leaseBatch(engine.Ask{})
	}
	r.set("due", past)
	for range 5 {
		r.leaseBatch(engine.Ask{}) // check requires an answer without leases
		require.Empty(r.t, r.leaseBatch(engine.Ask{Max: 10, Slots: []int{}}).Leased, "no slots are none, and not all")
	}
	require.Equal(r.t, engine.Pending, r.get("due").State)
	r.remove("due")
}

func (r *rig) sameKeyTwice() {
	r.t.Helper()
	tasks := []engine.Task{r.task("a", newDue), r.task("b", newDue), r.task("a", newDue.Add(1000)), r.task("a", newDue.Add(time.Hour))}
	tasks[3].Payload = []byte("last")
	answers := r.setAll(tasks...)
	was := []engine.State{engine.None, engine.None, engine.Pending, engine.Pending}
	for i, answer := range answers {
		require.Equal(r.t, was[i], answer.Was, "answer %d", i)
		sameTime(r.t, tasks[i].Due, answer.Due, "Answer.Due")
	}
	require.Less(r.t, answers[0].Version, answers[2].Version)
	require.Less(r.t, answers[2].Version, answers[3].Version)
	a := r.get("a")
	require.Equal(r.t, answers[3].Version, a.Version, "the last one stays")
	require.Equal(r.t, "last", string(a.Payload))

	// The second task finds the first one of the same key.
	absent := []engine.Task{r.task("c", newDue), r.task("c", newDue.Add(time.Hour))}
	absent[0].IfAbsent, absent[1].IfAbsent = true, true
	answers = r.setAll(absent...)
	require.Equal(r.t, engine.None, answers[0].Was)
	require.Equal(r.t, engine.Pending, answers[1].Was)
	require.Equal(r.t, answers[0].Version, answers[1].Version)
	sameTime(r.t, newDue, r.get("c").Due, "Due")

	// A task with IfAbsent and one without, of one key, in either order.
	absent = []engine.Task{r.task("d", newDue), r.task("c", newDue), r.task("d", newDue.Add(time.Hour)), r.task("c", newDue.Add(time.Hour))}
	absent[1].IfAbsent, absent[2].IfAbsent = true, true
	answers = r.setAll(absent...)
	require.Equal(r.t, []engine.State{engine.None, engine.Pending, engine.Pending, engine.Pending}, states(answers))
	require.Equal(r.t, answers[0].Version, answers[2].Version)
	sameTime(r.t, newDue, answers[2].Due, "Answer.Due of the task that stays")
	sameTime(r.t, newDue, r.get("d").Due, "Due")
	require.Equal(r.t, answers[3].Version, r.get("c").Version)
	sameTime(r.t, newDue.Add(time.Hour), r.get("c").Due, "Due")

	// A task that keeps the time of one that the same call sets, and one where there is none.
	keep := []engine.Task{r.task("c", newDue), r.task("e", newDue.Add(time.Hour)), r.task("c", past), r.task("e", past)}
	for i := 1; i < len(keep); i++ {
		keep[i].KeepDue, keep[i].Payload = true, fmt.Append(nil, i)
	}
	answers = r.setAll(keep...)
	for i, task := range r.getAll("c", "e") {
		due := newDue.Add(time.Duration(i) * time.Hour)
		sameTime(r.t, due, task.Due, "Due")
		sameTime(r.t, due, answers[2+i].Due, "Answer.Due")
		require.Equal(r.t, answers[2+i].Version, task.Version)
		require.Equal(r.t, fmt.Append(nil, 2+i), task.Payload)
	}
	r.remove("e")

	moves := []engine.Move{{Key: r.key("a"), Due: newDue}, {Key: r.key("none"), Due: newDue}, {Key: r.key("a"), Due: newDue.Add(time.Minute)}}
	moved, err := r.engine.Move(r.ctx, moves)
	require.NoError(r.t, err)
	require.Equal(r.t, []engine.State{engine.Pending, engine.None, engine.Pending}, states(moved))
	sameTime(r.t, newDue.Add(time.Minute), r.get("a").Due, "Due")
	require.Equal(r.t, moved[2].Version, r.get("a").Version)
	require.Less(r.t, moved[0].Version, moved[2].Version)

	r.versionedMoves()

	removed, err := r.engine.Remove(r.ctx, removals(r.keys("a", "none", "a", "b")))
	require.NoError(r.t, err)
	require.Equal(r.t, []engine.State{engine.Pending, engine.None, engine.None, engine.Pending}, states(removed))
	r.getAll("a", "c", "a", "none")
	r.remove("c")
	r.remove("d")
}

// versionedMoves moves task a, which waits, if it has a certain version. Task c has been moved before, and b has not.
func (r *rig) versionedMoves() {
	r.t.Helper()
	for _, id := range []string{"a", "b", "c"} {
		before, later := r.get(id), newDue.Add(2*time.Hour)
		answers, err := r.engine.Move(r.ctx, []engine.Move{{Key: r.key(id), Due: later, Version: before.Version + 1}, {Key: r.key("none"), Due: later, Version: 1}})
		require.NoError(r.t, err)
		require.Equal(r.t, []engine.State{engine.Pending, engine.None}, states(answers))
		require.Equal(r.t, before.Version, answers[0].Version, "that of the task, which stays")
		sameTime(r.t, before.Due, answers[0].Due, "Due")
		require.Equal(r.t, before, r.get(id))
		answers, err = r.engine.Move(r.ctx, []engine.Move{{Key: r.key(id), Due: later, Version: before.Version}, {Key: r.key(id), Due: newDue, Version: before.Version}})
		require.NoError(r.t, err)
		require.Greater(r.t, answers[0].Version, before.Version)
		require.Equal(r.t, answers[0].Version, answers[1].Version, "the second one was for the version before")
		sameTime(r.t, later, r.get(id).Due, "Due")
	}
	r.move("a", newDue.Add(time.Minute))
}

func states(answers []engine.Answer) []engine.State {
	var states []engine.State
	for _, answer := range answers {
		states = append(states, answer.Was)
	}
	return states
}

// strangers tests missing topics in a batch with an existing one.
func (r *rig) strangers() {
	r.t.Helper()
	none := unique("none")
	answers, err := r.engine.Set(r.ctx, []engine.Task{r.task("x", newDue), {Topic: none, ID: "x", Due: newDue}, r.task("y", newDue)})
	require.NoError(r.t, err)
	require.Len(r.t, answers, 3)
	require.NoError(r.t, answers[0].Err)
	require.ErrorIs(r.t, answers[1].Err, engine.ErrNotFound)
	require.Contains(r.t, answers[1].Err.Error(), none)
	require.NoError(r.t, answers[2].Err)
	require.Equal(r.t, engine.Pending, r.get("y").State)

	key := engine.Key{Topic: none, ID: "x"}
	tasks, err := r.engine.Get(r.ctx, []engine.Key{key, r.key("x")})
	require.NoError(r.t, err)
	require.Equal(r.t, engine.Task{Topic: none, ID: "x"}, tasks[0])
	require.Equal(r.t, engine.Pending, tasks[1].State)
	held, err := r.engine.Extend(r.ctx, []engine.Token{{Key: key, Lease: 1}}, long)
	require.NoError(r.t, err)
	require.Equal(r.t, []bool{false}, held)
	moved, err := r.engine.Move(r.ctx, []engine.Move{{Key: key}, {Key: r.key("x"), Due: newDue}})
	require.NoError(r.t, err)
	require.Equal(r.t, []engine.State{engine.None, engine.Pending}, states(moved))
	replayed, err := r.engine.Replay(r.ctx, []engine.Key{key, r.key("x")})
	require.NoError(r.t, err)
	require.Equal(r.t, []engine.State{engine.None, engine.Pending}, states(replayed))
	removed, err := r.engine.Remove(r.ctx, removals([]engine.Key{key, r.key("x"), r.key("y")}))
	require.NoError(r.t, err)
	require.Equal(r.t, []engine.State{engine.None, engine.Pending, engine.Pending}, states(removed))
	_, err = r.engine.Lease(r.ctx, engine.Ask{Topic: none, Node: "node", Max: 1, Lease: long})
	require.ErrorIs(r.t, err, engine.ErrNotFound)
}

func (r *rig) manyAtOnce() {
	r.t.Helper()
	const count = 3000
	var tasks []engine.Task
	var keys []engine.Key
	var moves []engine.Move
	for _, i := range rand.Perm(count) {
		id := fmt.Sprint(i)
		tasks = append(tasks, r.task(id, newDue.Add(time.Duration(i)*time.Millisecond)))
		keys = append(keys, r.key(id))
		moves = append(moves, engine.Move{Key: r.key(id), Due: past})
	}
	answers := r.setAll(tasks...)
	versions := map[int64]bool{}
	for i, answer := range answers {
		require.Equal(r.t, engine.None, answer.Was)
		sameTime(r.t, tasks[i].Due, answer.Due, "the answers are in the order of the tasks")
		versions[answer.Version] = true
	}
	got, err := r.engine.Get(r.ctx, keys)
	require.NoError(r.t, err)
	for i, task := range got {
		require.Equal(r.t, keys[i], task.Key())
		require.Equal(r.t, answers[i].Version, task.Version)
		require.Equal(r.t, "payload of "+keys[i].ID, string(task.Payload))
	}
	moved, err := r.engine.Move(r.ctx, moves)
	require.NoError(r.t, err)
	require.Equal(r.t, slices.Repeat([]engine.State{engine.Pending}, count), states(moved))
	leased := r.lease(count, long)
	outcomes := make([]engine.Outcome, count)
	tokens := make([]engine.Token, count)
	ids := map[string]bool{}
	for i, one := range leased {
		ids[one.ID] = true
		tokens[i] = one.Token
		outcomes[i] = engine.Outcome{Token: one.Token, As: engine.Done}
	}
	require.Len(r.t, ids, count, "each is leased once")
	for i, held := range r.extend(long, tokens...) {
		require.True(r.t, held, "lease %d", i)
	}
	for i, settled := range r.settle(outcomes...) {
		require.True(r.t, settled, "outcome %d", i)
	}
	removed, err := r.engine.Remove(r.ctx, removals(keys))
	require.NoError(r.t, err)
	require.Equal(r.t, slices.Repeat([]engine.State{engine.None}, count), states(removed))
}

// testAnyBytes stores all possible contents of a task and compares them.
func testAnyBytes(r *rig) {
	r.make(engine.Topic{Slots: 8})
	every := make([]byte, engine.MaxPayload)
	for i := range every {
		every[i] = byte(i * 7)
	}
	callback := &engine.Callback{
		Kind: "http", Target: "https://example.org/{x}?a=b&c=\"d\"", Method: "PUT", Timeout: 1500 * time.Millisecond,
		Header: map[string]string{"X-Kind": "ünï'code", "Empty": "", "Lines": "a\tb"},
	}
	tasks := []engine.Task{
		{ID: "largest", Payload: every},
		{ID: "empty", Payload: []byte{}},
		{ID: "nil"},
		{ID: "zero", Payload: []byte{0}},
		{ID: "broken", Payload: []byte("\xff\xfe\x00'\"\\%s{}\r\n")},
		{ID: "callback", Payload: []byte("1"), Callback: callback},
		{ID: "small callback", Callback: &engine.Callback{Kind: "nats", Target: "x"}},
		{ID: "{user-7}/reminder"},
		{ID: "{user-7}/other"},
		{ID: "{}"},
		{ID: "}{"},
		{ID: "{"},
		{ID: "a{b}c{d}"},
		{ID: "日本語 ελληνικά 🕰️"},
		{ID: "e\u0301"},
		{ID: "é"},
		{ID: "\u2028"},
		{ID: "\u202e"},
		{ID: "A"},
		{ID: "a"},
		{ID: " a"},
		{ID: "a "},
		{ID: "'; DROP TABLE tasks; --"},
		{ID: "%_\\"},
		{ID: "*?[a]"},
		{ID: "$1"},
		{ID: strings.Repeat("i", engine.MaxID)},
		{ID: strings.Repeat("é", engine.MaxID/2)},
		{ID: "0"},
		{ID: "00"},
		{ID: "1e0"},
		{ID: "NULL"},
	}
	for i := range tasks {
		tasks[i].Topic, tasks[i].Due = r.topic, past
		require.NoError(r.t, tasks[i].Check())
	}
	want := map[string]engine.Task{}
	for i, answer := range r.setAll(tasks...) {
		require.Equal(r.t, engine.None, answer.Was, "%q is another than all others", tasks[i].ID)
		want[tasks[i].ID] = tasks[i]
		r.sameContent(tasks[i], r.get(tasks[i].ID))
	}
	var outcomes []engine.Outcome
	for _, leased := range r.lease(len(tasks), long) {
		r.sameContent(want[leased.ID], leased.Task)
		parsed, err := engine.ParseToken(leased.Token.String())
		require.NoError(r.t, err)
		require.Equal(r.t, leased.Token, parsed)
		failure := "failed: '\"\\ ü " + leased.ID
		outcomes = append(outcomes, engine.Outcome{Token: parsed, As: engine.Dead, Error: failure})
	}
	for i, settled := range r.settle(outcomes...) {
		require.True(r.t, settled)
		task := r.get(outcomes[i].Token.ID)
		r.sameContent(want[task.ID], task)
		require.Equal(r.t, outcomes[i].Error, task.Error)
	}
	page, err := r.engine.List(r.ctx, engine.Query{Topic: r.topic, State: engine.Dead, Limit: engine.MaxPage})
	require.NoError(r.t, err)
	require.Len(r.t, page.Tasks, len(tasks))
	for _, task := range page.Tasks {
		r.sameContent(want[task.ID], task)
	}
}

func (r *rig) sameContent(want, got engine.Task) {
	r.t.Helper()
	require.Equal(r.t, want.Key(), got.Key())
	require.True(r.t, string(want.Payload) == string(got.Payload), "payload of %q", want.ID)
	require.Equal(r.t, want.Callback, got.Callback)
}

// testCopies changes what it has set and what it has got.
func testCopies(r *rig) {
	callback := func() *engine.Callback {
		return &engine.Callback{Kind: "http", Target: "http://127.0.0.1/", Header: map[string]string{"a": "b"}, Final: []int{410}}
	}
	spoil := func(payload []byte, callback *engine.Callback, trace map[string]string) {
		clear(payload)
		clear(trace)
		clear(callback.Header)
		callback.Final[0], callback.Target = 499, "http://127.0.0.2/"
	}
	topic := engine.Topic{Slots: 1, Callback: callback()}
	made := r.make(topic)
	spoil(nil, topic.Callback, nil)
	spoil(nil, made.Callback, nil)
	spoil(nil, r.find(r.topic).Callback, nil)
	require.Equal(r.t, callback(), r.find(r.topic).Callback)

	given := r.task("1", past)
	given.Callback, given.Trace, given.Options = callback(), maps.Clone(trace), options.Clone()
	payload := slices.Clone(given.Payload)
	r.setAll(given)
	spoil(given.Payload, given.Callback, given.Trace)
	clear(given.Options.Metadata)
	for _, look := range []func() engine.Task{
		func() engine.Task { return r.get("1") },
		func() engine.Task { return r.list(engine.Pending, 1)[0] },
		func() engine.Task { return r.lease(1, long)[0].Task },
		func() engine.Task { return r.get("1") },
	} {
		got := look()
		require.Equal(r.t, payload, got.Payload)
		require.Equal(r.t, callback(), got.Callback)
		require.Equal(r.t, trace, got.Trace)
		r.sameOptions(got)
		spoil(got.Payload, got.Callback, got.Trace)
		clear(got.Options.Metadata)
	}
}
