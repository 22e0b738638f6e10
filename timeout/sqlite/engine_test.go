package sqlite_test

import (
	"context"
	"fmt"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/heartwheel-go/heartwheel/timeout/engine"
	"github.com/heartwheel-go/heartwheel/timeout/sqlite"
)

var (
	_ engine.Primary = (*sqlite.Engine)(nil)
	_ engine.Log     = (*sqlite.Engine)(nil)
	_ engine.Peeker  = (*sqlite.Engine)(nil)
)

// rig is an engine with one topic, "t".
type rig struct {
	*testing.T
	*sqlite.Engine
	path string
}

func newRig(t *testing.T, topic engine.Topic) *rig {
	t.Helper()
	r := &rig{T: t, path: filepath.Join(t.TempDir(), "a b%?#.db")}
	r.Engine = openEngine(t, r.path)
	r.topic(topic)
	return r
}

func openEngine(t *testing.T, path string) *sqlite.Engine {
	t.Helper()
	engine, err := sqlite.Open(path, sqlite.Config{})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, engine.Close()) })
	return engine
}

func (r *rig) topic(topic engine.Topic) engine.Topic {
	r.Helper()
	topic.Name = "t"
	kept, err := r.SetTopic(context.Background(), topic, false)
	require.NoError(r.T, err)
	return kept
}

func key(id string) engine.Key { return engine.Key{Topic: "t", ID: id} }

func (r *rig) set(tasks ...engine.Task) []engine.Answer {
	r.Helper()
	for i := range tasks {
		if tasks[i].Topic == "" {
			tasks[i].Topic = "t"
		}
	}
	answers, err := r.Set(context.Background(), tasks)
	require.NoError(r.T, err)
	require.Len(r.T, answers, len(tasks))
	return answers
}

func (r *rig) get(id string) engine.Task {
	r.Helper()
	tasks, err := r.Get(context.Background(), []engine.Key{key(id)})
	require.NoError(r.T, err)
	return tasks[0]
}

func (r *rig) leaseBatch(ask engine.Ask) engine.Batch {
	r.Helper()
	ask.Topic = "t"
	if ask.Node == "" {
		ask.Node = "n"
	}
	if ask.Lease == 0 {
		ask.Lease = time.Minute
	}
	batch, err := r.Lease(context.Background(), ask)
	require.NoError(r.T, err)
	require.Len(r.T, batch.Settled, len(ask.Settle))
	return batch
}

// lease leases one task, and checks its id.
func (r *rig) lease(id string, lease time.Duration) engine.Leased {
	r.Helper()
	batch := r.leaseBatch(engine.Ask{Max: 1, Lease: lease})
	require.Len(r.T, batch.Leased, 1)
	require.Equal(r.T, id, batch.Leased[0].ID)
	return batch.Leased[0]
}

func (r *rig) settle(outcomes ...engine.Outcome) []bool {
	r.Helper()
	return r.leaseBatch(engine.Ask{Settle: outcomes}).Settled
}

// bring brings a task into a state, and returns the token of its lease, if it had one.
func (r *rig) bring(id string, state engine.State) engine.Token {
	r.Helper()
	if state == engine.None {
		return engine.Token{}
	}
	if state == engine.Pending {
		r.set(engine.Task{ID: id, After: time.Hour})
		return engine.Token{}
	}
	r.set(engine.Task{ID: id, Due: time.Unix(1, 0)})
	leased := r.lease(id, time.Minute)
	switch state {
	case engine.Done, engine.Dead:
		require.Equal(r.T, []bool{true}, r.settle(engine.Outcome{Token: leased.Token, As: state, Error: "e"}))
	case engine.Removed:
		_, err := r.Remove(context.Background(), []engine.Removal{{Key: key(id)}})
		require.NoError(r.T, err)
	}
	require.Equal(r.T, state, r.get(id).State)
	return leased.Token
}

var states = []engine.State{engine.None, engine.Pending, engine.Running, engine.Done, engine.Dead, engine.Removed}

func TestWhatIsSetIsKeptAsItWas(t *testing.T) {
	r := newRig(t, engine.Topic{})
	payload := make([]byte, 300_000)
	for i := range payload {
		payload[i] = byte(i * 7)
	}
	call := &engine.Callback{Kind: "http", Target: "http://x/?a=<b>&c", Header: map[string]string{"A": "ü"}, Timeout: time.Second}
	due := time.Now().Add(time.Hour)
	ids := []string{"plain", `q"uo'te\`, "ü€𝄞\u2028�", "{a}/[]", "<&>"}
	for _, id := range ids {
		answers := r.set(engine.Task{ID: id, Payload: payload, Due: due, Callback: call, Error: "x", Attempts: 7, State: engine.Dead})
		require.Equal(t, engine.None, answers[0].Was)
		require.Equal(t, engine.Millis(due), answers[0].Due.UnixMilli())
		got := r.get(id)
		require.WithinDuration(t, time.Now(), got.Created, time.Minute)
		got.Created = time.Time{}
		require.Equal(t, engine.Task{
			Topic: "t", ID: id, Payload: payload, Due: time.UnixMilli(engine.Millis(due)), Callback: call,
			State: engine.Pending, Version: answers[0].Version, Until: time.UnixMilli(engine.Millis(due)),
		}, got)
		again := r.set(engine.Task{ID: id})
		require.Equal(t, engine.Pending, again[0].Was)
		require.Greater(t, again[0].Version, answers[0].Version)
		require.Empty(t, r.get(id).Payload)
		require.Nil(t, r.get(id).Callback)
	}
	counts, err := r.Count(t.Context(), "t")
	require.NoError(t, err)
	require.EqualValues(t, len(ids), counts.Pending)
}

func TestEachVerbInEachState(t *testing.T) {
	for _, retain := range []time.Duration{0, time.Hour} {
		for _, was := range states {
			if retain == 0 && (was == engine.Done || was == engine.Removed) {
				continue
			}
			t.Run(fmt.Sprintf("retain=%v/was=%v", retain, was), func(t *testing.T) {
				lives := was == engine.Pending || was == engine.Running || was == engine.Dead
				verbs := map[string]func(r *rig) (engine.Answer, bool){
					"set":      func(r *rig) (engine.Answer, bool) { return r.set(engine.Task{ID: "x", After: time.Hour})[0], true },
					"ifabsent": func(r *rig) (engine.Answer, bool) { return r.set(engine.Task{ID: "x", IfAbsent: true})[0], !lives },
					"move": func(r *rig) (engine.Answer, bool) {
						a, err := r.Move(context.Background(), []engine.Move{{Key: key("x"), After: time.Minute}})
						require.NoError(r.T, err)
						return a[0], was == engine.Pending
					},
					"remove": func(r *rig) (engine.Answer, bool) {
						a, err := r.Remove(context.Background(), []engine.Removal{{Key: key("x")}})
						require.NoError(r.T, err)
						return a[0], lives
					},
					"replay": func(r *rig) (engine.Answer, bool) {
						a, err := r.Replay(context.Background(), []engine.Key{key("x")})
						require.NoError(r.T, err)
						return a[0], was == engine.Dead
					},
				}
				for name, verb := range verbs {
					r := newRig(t, engine.Topic{Retain: retain})
					token := r.bring("x", was)
					before := r.get("x")
					answer, effect := verb(r)
					after := r.get("x")
					require.Equal(t, was, answer.Was, name)
					require.NoError(t, answer.Err)
					switch {
					case !effect:
						require.Equal(t, before, after, name)
					case name == "remove" && retain == 0:
						require.Equal(t, engine.None, after.State)
					case name == "remove":
						require.Equal(t, engine.Removed, after.State)
					default:
						require.Equal(t, engine.Pending, after.State, name)
						require.Greater(t, after.Version, before.Version, name)
						require.Equal(t, after.Version, answer.Version, name)
						require.Equal(t, after.Due.UnixMilli(), answer.Due.UnixMilli(), name)
					}
					if was == engine.Running {
						held, err := r.Extend(t.Context(), []engine.Token{token}, time.Hour)
						require.NoError(t, err)
						require.Equal(t, []bool{!effect}, held, name)
						require.Equal(t, []bool{!effect}, r.settle(engine.Outcome{Token: token, As: engine.Done}), name)
						require.Equal(t, []bool{false}, r.settle(engine.Outcome{Token: token, As: engine.Done}), name)
					}
				}
			})
		}
	}
}

func TestTheSameKeyTwiceInABatch(t *testing.T) {
	r := newRig(t, engine.Topic{})
	answers := r.set(
		engine.Task{ID: "x", Payload: []byte("1")},
		engine.Task{ID: "y"},
		engine.Task{ID: "x", Payload: []byte("2"), IfAbsent: true},
		engine.Task{ID: "x", Payload: []byte("3")},
		engine.Task{Topic: "unknown", ID: "x"},
	)
	require.Equal(t, engine.None, answers[0].Was)
	require.Equal(t, engine.Pending, answers[2].Was)
	require.Equal(t, answers[0].Version, answers[2].Version)
	require.Equal(t, engine.Pending, answers[3].Was)
	require.ErrorIs(t, answers[4].Err, engine.ErrNotFound)
	require.Equal(t, "3", string(r.get("x").Payload))
	require.Equal(t, answers[3].Version, r.get("x").Version)

	gone, err := r.Remove(t.Context(), []engine.Removal{{Key: key("x")}, {Key: key("x")}, {Key: key("y")}, {Key: engine.Key{Topic: "unknown", ID: "x"}}})
	require.NoError(t, err)
	require.Equal(t, []engine.Answer{{Was: engine.Pending}, {}, {Was: engine.Pending}, {}}, gone)
	require.Greater(t, r.set(engine.Task{ID: "x"})[0].Version, answers[3].Version, "a version never comes again")
}

func TestBatchesAreOfAnyLength(t *testing.T) {
	r := newRig(t, engine.Topic{})
	const count = 1500
	var tasks []engine.Task
	var keys []engine.Key
	for i := range count {
		tasks = append(tasks, engine.Task{ID: fmt.Sprint(i), Due: time.UnixMilli(int64(1 + i))})
		keys = append(keys, key(fmt.Sprint(i)))
	}
	r.set(tasks...)
	got, err := r.Get(t.Context(), keys)
	require.NoError(t, err)
	batch := r.leaseBatch(engine.Ask{Max: 1400})
	require.Len(t, batch.Leased, 1400)
	require.False(t, batch.Next.After(batch.Now))
	var outcomes []engine.Outcome
	var tokens []engine.Token
	for i, leased := range batch.Leased {
		require.Equal(t, got[i].ID, leased.ID)
		require.Equal(t, fmt.Sprint(i), leased.ID, "the earliest first")
		outcomes = append(outcomes, engine.Outcome{Token: leased.Token, As: engine.Done})
		tokens = append(tokens, leased.Token)
	}
	held, err := r.Extend(t.Context(), tokens, time.Hour)
	require.NoError(t, err)
	require.NotContains(t, held, false)
	batch = r.leaseBatch(engine.Ask{Max: 1000, Settle: outcomes})
	require.NotContains(t, batch.Settled, false)
	require.Len(t, batch.Leased, 100)
	counts, err := r.Count(t.Context(), "t")
	require.NoError(t, err)
	require.Equal(t, engine.Counts{Running: 100}, counts)
	require.NoError(t, r.DropTopic(t.Context(), "t"))
	require.ErrorIs(t, r.DropTopic(t.Context(), "t"), engine.ErrNotFound)
	r.topic(engine.Topic{})
	counts, err = r.Count(t.Context(), "t")
	require.NoError(t, err)
	require.Zero(t, counts)
}

func TestNothingIsLeasedBeforeItsTime(t *testing.T) {
	r := newRig(t, engine.Topic{})
	due := time.Now().Add(60*time.Millisecond + 100*time.Microsecond)
	r.set(engine.Task{ID: "x", Due: due})
	deadline := time.Now().Add(10 * time.Second)
	for {
		batch := r.leaseBatch(engine.Ask{Max: 10})
		if len(batch.Leased) == 1 {
			require.False(t, time.Now().Before(due))
			require.False(t, batch.Now.Before(due))
			return
		}
		require.Equal(t, engine.Millis(due), batch.Next.UnixMilli())
		require.True(t, time.Now().Before(deadline))
	}
}

func TestOutcomes(t *testing.T) {
	r := newRig(t, engine.Topic{Retries: 1})
	r.set(engine.Task{ID: "x", Due: time.Unix(1, 0), Payload: []byte("p")})
	first := r.lease("x", time.Minute)
	require.Equal(t, 1, first.Attempts)
	require.Equal(t, "n", first.Node)
	require.Equal(t, "p", string(first.Payload))
	require.Equal(t, engine.Running, first.State)
	require.WithinDuration(t, time.Now().Add(time.Minute), first.Until, 30*time.Second)

	require.Equal(t, []bool{true, false}, r.settle(
		engine.Outcome{Token: first.Token, As: engine.Pending, After: time.Hour, Error: "broken", Started: time.Now(), Took: 5},
		engine.Outcome{Token: first.Token, As: engine.Done},
	))
	task := r.get("x")
	require.Equal(t, engine.Pending, task.State)
	require.Equal(t, "broken", task.Error)
	require.Equal(t, int64(1000), task.Due.UnixMilli())
	require.WithinDuration(t, time.Now().Add(time.Hour), task.Until, time.Minute)
	require.Equal(t, first.Version, task.Version)

	_, err := r.Move(t.Context(), []engine.Move{{Key: key("x")}})
	require.NoError(t, err)
	second := r.lease("x", time.Minute)
	require.Equal(t, 2, second.Attempts)
	require.Greater(t, second.Token.Lease, first.Token.Lease)
	require.Equal(t, []bool{true}, r.settle(engine.Outcome{Token: second.Token, As: engine.Pending, Release: true}))
	third := r.lease("x", time.Minute)
	require.Equal(t, 2, third.Attempts)
	require.Equal(t, "broken", third.Error)
	for _, wrong := range []engine.Token{
		{Key: key("y"), Lease: third.Token.Lease},
		{Key: engine.Key{Topic: "u", ID: "x"}, Lease: third.Token.Lease},
		{Key: key("x"), Lease: third.Token.Lease + 1},
		{Key: key("' OR 1"), Lease: third.Token.Lease},
		second.Token,
	} {
		require.Equal(t, []bool{false}, r.settle(engine.Outcome{Token: wrong, As: engine.Done}), wrong)
	}
	require.Equal(t, []bool{true}, r.settle(engine.Outcome{Token: third.Token, As: engine.Dead, Error: "hopeless"}))
	require.Equal(t, engine.Dead, r.get("x").State)
	require.Equal(t, "hopeless", r.get("x").Error)

	log, err := r.Executions(t.Context(), key("x"), 10)
	require.NoError(t, err)
	require.Len(t, log, 2)
	require.Equal(t, engine.Dead, log[0].As)
	require.Equal(t, 1, log[1].Attempt)
	require.Equal(t, time.Duration(5), log[1].Took)
	require.WithinDuration(t, time.Now(), log[1].Started, time.Minute)

	_, err = r.Replay(t.Context(), []engine.Key{key("x")})
	require.NoError(t, err)
	require.Equal(t, 1, r.lease("x", time.Minute).Attempts)
}

func TestALeaseThatExpires(t *testing.T) {
	r := newRig(t, engine.Topic{Retries: 1})
	r.set(engine.Task{ID: "x", Due: time.Unix(1, 0)}, engine.Task{ID: "y", Due: time.Unix(2, 0)})
	r.lease("x", time.Millisecond)
	time.Sleep(5 * time.Millisecond)
	batch := r.leaseBatch(engine.Ask{Max: 2, Lease: time.Millisecond})
	require.Len(t, batch.Leased, 2)
	require.True(t, batch.Leased[0].Again)
	require.Equal(t, 2, batch.Leased[0].Attempts)
	require.Contains(t, batch.Leased[0].Error, "the lease of n ended in attempt 1")
	require.False(t, batch.Leased[1].Again)
	time.Sleep(5 * time.Millisecond)
	batch = r.leaseBatch(engine.Ask{Max: 2})
	require.Len(t, batch.Leased, 2)
	require.Equal(t, 3, batch.Leased[0].Attempts)
	require.Equal(t, []bool{true}, r.settle(engine.Outcome{Token: batch.Leased[0].Token, As: engine.Dead, Release: true, Error: batch.Leased[0].Error}))
	require.Equal(t, engine.Dead, r.get("x").State)
	require.Contains(t, r.get("x").Error, "ended in attempt 2")
	log, err := r.Executions(t.Context(), key("x"), 1)
	require.NoError(t, err)
	require.Len(t, log, 1)
	require.Equal(t, 2, log[0].Attempt)
}

func TestAPausedTopicLeasesNothingAndSettles(t *testing.T) {
	r := newRig(t, engine.Topic{})
	r.set(engine.Task{ID: "x"}, engine.Task{ID: "y"})
	leased := r.leaseBatch(engine.Ask{Max: 1}).Leased[0]
	_, err := r.Pause(t.Context(), "t", true, time.Time{})
	require.NoError(t, err)
	batch := r.leaseBatch(engine.Ask{Max: 1, Settle: []engine.Outcome{{Token: leased.Token, As: engine.Done}}})
	require.Equal(t, []bool{true}, batch.Settled)
	require.Empty(t, batch.Leased)
	require.Empty(t, r.leaseBatch(engine.Ask{Max: 1}).Leased)
	_, err = r.Pause(t.Context(), "t", false, time.Time{})
	require.NoError(t, err)
	require.Len(t, r.leaseBatch(engine.Ask{Max: 1}).Leased, 1)
}

func TestOnlyTheSlotsAskedForAreLeasedFromEvenAfterTheyGrow(t *testing.T) {
	r := newRig(t, engine.Topic{Slots: 2})
	var tasks []engine.Task
	for i := range 64 {
		tasks = append(tasks, engine.Task{ID: fmt.Sprint(i), Due: time.Unix(1, 0)})
	}
	r.set(tasks...)
	for _, leased := range r.leaseBatch(engine.Ask{Max: 10, Slots: []int{1, 1, 7, -1}}).Leased {
		require.Equal(t, 1, engine.Slot(leased.ID, 2))
	}
	require.Equal(t, 8, r.topic(engine.Topic{Slots: 8}).Slots)
	require.Equal(t, 8, r.topic(engine.Topic{}).Slots)
	_, err := r.SetTopic(t.Context(), engine.Topic{Name: "t", Slots: 4}, false)
	require.ErrorIs(t, err, engine.ErrConflict)
	for _, leased := range r.leaseBatch(engine.Ask{Max: 64, Slots: []int{2, 5}}).Leased {
		require.Contains(t, []int{2, 5}, engine.Slot(leased.ID, 8))
	}
	require.Empty(t, r.leaseBatch(engine.Ask{Max: 64, Slots: []int{}}).Leased)
	r.leaseBatch(engine.Ask{Max: 64})
	counts, err := r.Count(t.Context(), "t")
	require.NoError(t, err)
	require.Equal(t, engine.Counts{Running: 64}, counts)
}

func TestListsArePagesWithoutHolesOrDoubles(t *testing.T) {
	r := newRig(t, engine.Topic{Retain: time.Hour})
	var tasks []engine.Task
	for i := range 25 {
		tasks = append(tasks, engine.Task{ID: fmt.Sprint(i), Due: time.UnixMilli(1e12 + int64(i)/10)})
	}
	r.set(tasks...)
	seen := map[string]int{}
	query := engine.Query{Topic: "t", State: engine.Pending, Limit: 4}
	for pages := 1; ; pages++ {
		page, err := r.List(t.Context(), query)
		require.NoError(t, err)
		for i, task := range page.Tasks {
			seen[task.ID]++
			require.False(t, i > 0 && task.Until.Before(page.Tasks[i-1].Until))
		}
		_, err = r.Remove(t.Context(), []engine.Removal{{Key: page.Tasks[0].Key()}}) // a task removed meanwhile disturbs nothing
		require.NoError(t, err)
		if query.Cursor = page.Next; page.Next == "" {
			require.Equal(t, 7, pages)
			break
		}
	}
	require.Len(t, seen, 25)
	page, err := r.List(t.Context(), engine.Query{Topic: "t", State: engine.Removed})
	require.NoError(t, err)
	require.Len(t, page.Tasks, 7)
	for _, bad := range []engine.Query{{State: engine.Pending, Limit: 1001}, {State: engine.Pending, Limit: -1}, {}, {State: 9}, {State: engine.Dead, Cursor: "x"}, {State: engine.Dead, Cursor: "MS8y"[:3]}} {
		bad.Topic = "t"
		_, err := r.List(t.Context(), bad)
		require.ErrorIs(t, err, engine.ErrArgument)
	}
}

func TestMaintenanceDeletesWhatWasKeptForItsTime(t *testing.T) {
	r := newRig(t, engine.Topic{Retain: time.Hour})
	for _, state := range states[1:] {
		r.bring(state.String(), state)
	}
	purged, err := r.Maintain(t.Context())
	require.NoError(t, err)
	require.False(t, purged.More)
	require.Equal(t, engine.Done, r.get("done").State)
	log, err := r.Executions(t.Context(), key("done"), 5)
	require.NoError(t, err)
	require.Len(t, log, 1, "a topic that retains has the log of what succeeded")
	r.topic(engine.Topic{})
	_, err = r.Maintain(t.Context())
	require.NoError(t, err)
	for _, state := range states[1:] {
		want := state
		if state == engine.Done || state == engine.Removed {
			want = engine.None
		}
		require.Equal(t, want, r.get(state.String()).State)
	}
	log, err = r.Executions(t.Context(), key("done"), 5)
	require.NoError(t, err)
	require.Empty(t, log)
}

// One call deletes what has ended in any topic, and counts the dead ones of each. Another process may have dropped one of them.
func TestMaintenanceIsForAllTopics(t *testing.T) {
	r := newRig(t, engine.Topic{Retries: -1, MaxDead: 2})
	for _, name := range []string{"u", "dropped"} {
		_, err := r.SetTopic(t.Context(), engine.Topic{Name: name, Retries: -1, MaxDead: 1}, false)
		require.NoError(t, err)
	}
	var last []engine.Key // the last that died in each topic
	for _, name := range []string{"t", "u", "dropped"} {
		for i := range 4 {
			last = append(last, engine.Key{Topic: name, ID: fmt.Sprint(i)})
			r.set(engine.Task{Topic: name, ID: last[len(last)-1].ID, Due: time.Unix(1, 0)})
			batch, err := r.Lease(t.Context(), engine.Ask{Topic: name, Node: "n", Max: 1, Lease: time.Minute})
			require.NoError(t, err)
			dead := []engine.Outcome{{Token: batch.Leased[0].Token, As: engine.Dead, Error: "e"}}
			batch, err = r.Lease(t.Context(), engine.Ask{Topic: name, Settle: dead})
			require.NoError(t, err)
			require.Equal(t, []bool{true}, batch.Settled)
		}
	}
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	require.ErrorIs(t, r.DropTopic(ended, "dropped"), context.Canceled)
	require.NoError(t, openEngine(t, r.path).DropTopic(t.Context(), "dropped"))
	purged, err := r.Maintain(t.Context())
	require.NoError(t, err)
	require.Equal(t, engine.Purged{Dead: map[string]int{"t": 2, "u": 3}}, purged)
	tasks, err := r.Get(t.Context(), last)
	require.NoError(t, err)
	for i, task := range tasks {
		want := engine.None
		if i == 2 || i == 3 || i == 7 {
			want = engine.Dead
		}
		require.Equal(t, want, task.State, task.Key())
		log, err := r.Executions(t.Context(), task.Key(), 1)
		require.NoError(t, err)
		require.Equal(t, want == engine.Dead, len(log) == 1, "the log goes with the task")
	}
	purged, err = r.Maintain(t.Context())
	require.NoError(t, err)
	require.Zero(t, purged)
}

func TestMembersComeAndGo(t *testing.T) {
	r := newRig(t, engine.Topic{})
	other := openEngine(t, r.path)
	_, err := r.Heartbeat(t.Context(), engine.Node{Name: "a"}, time.Hour)
	require.NoError(t, err)
	second, err := other.Heartbeat(t.Context(), engine.Node{Name: "b", Topics: []string{}}, time.Hour)
	require.NoError(t, err)
	require.Equal(t, []engine.Node{{Name: "a"}, {Name: "b", Topics: []string{}}}, second.Nodes)
	same, err := r.Heartbeat(t.Context(), engine.Node{Name: "a"}, time.Hour)
	require.NoError(t, err)
	require.Equal(t, second, same)
	changed, err := r.Heartbeat(t.Context(), engine.Node{Name: "a", Topics: []string{"t"}}, time.Millisecond)
	require.NoError(t, err)
	require.Equal(t, "a", changed.Leader())
	time.Sleep(5 * time.Millisecond)
	alone, err := other.Heartbeat(t.Context(), engine.Node{Name: "b", Topics: []string{}}, time.Hour)
	require.NoError(t, err)
	require.Equal(t, "b", alone.Leader())
	require.NoError(t, other.Leave(t.Context(), "b"))
	back, err := r.Heartbeat(t.Context(), engine.Node{Name: "a"}, time.Hour)
	require.NoError(t, err)
	require.Len(t, back.Nodes, 1)
}

// The attempts of a task begin anew after a failed run, and its log stays.
func TestTheLogOfAFailedRunGoesWithItsTask(t *testing.T) {
	r := newRig(t, engine.Topic{Slots: 1})
	key := engine.Key{Topic: "t", ID: "1"}
	set := func(after time.Duration) {
		_, err := r.Set(t.Context(), []engine.Task{{Topic: "t", ID: "1", After: after}})
		require.NoError(t, err)
	}
	for name, next := range map[string]func(){
		"removed": func() {
			_, err := r.Remove(t.Context(), []engine.Removal{{Key: key}})
			require.NoError(t, err)
		},
		"set": func() { set(time.Hour) },
	} {
		set(0)
		batch, err := r.Lease(t.Context(), engine.Ask{Topic: "t", Node: "n", Max: 1, Lease: time.Minute})
		require.NoError(t, err)
		failed := engine.Outcome{Token: batch.Leased[0].Token, As: engine.Pending, NewRun: true, After: time.Hour, Error: "broken"}
		_, err = r.Lease(t.Context(), engine.Ask{Topic: "t", Node: "n", Settle: []engine.Outcome{failed}})
		require.NoError(t, err)
		log, err := r.Executions(t.Context(), key, 10)
		require.NoError(t, err)
		require.Len(t, log, 1, name)
		next()
		log, err = r.Executions(t.Context(), key, 10)
		require.NoError(t, err)
		require.Empty(t, log, name)
	}
}
