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

// model is an engine of one topic, too simple to be wrong.
type model struct {
	*rig
	tasks map[string]*modelTask
	ended map[string]int64 // the versions of missing tasks
	kept  bool             // whether the topic retains
	slots int
	old   []engine.Token // tokens of void leases
	log   []string
	rng   *rand.Rand
}

// modelTask is a task. Only its version and lease number come from the engine.
type modelTask struct {
	state    engine.State
	version  int64
	due      time.Time
	waits    bool // pending, with its time far away
	attempts int
	failure  string
	replayed bool // without a failure since: an engine may forget the earlier one
	payload  string
	traced   bool
	token    engine.Token

	before, after   time.Time // looks at the clock around the set
	created         time.Time // once it was seen
	calls, failures int
}

// testModel makes random calls of one engine and the other, and compares the answers with the
// model's.
func testModel(r *rig) {
	end := time.Now().Add(enough)
	for round := 0; round < 6 && time.Now().Before(end); round++ {
		seed := rand.Uint64()
		inner := *r
		inner.topic = r.topic + unique("")
		m := &model{
			rig: &inner, tasks: map[string]*modelTask{}, ended: map[string]int64{}, kept: round%2 == 0, slots: 2,
			rng: rand.New(rand.NewPCG(seed, 0)),
		}
		m.run(seed, end)
		_ = r.engine.DropTopic(r.ctx, inner.topic)
	}
}

func (m *model) run(seed uint64, end time.Time) {
	defer func() {
		if m.t.Failed() {
			m.t.Logf("seed %d, the last calls:\n%s", seed, strings.Join(m.log[max(0, len(m.log)-60):], "\n"))
		}
	}()
	m.setTopic()
	for step := 0; step < 100 || step < 250 && time.Now().Before(end); step++ {
		switch dice := m.rng.IntN(20); {
		case dice < 5:
			m.set()
		case dice < 7:
			m.move()
		case dice < 9:
			m.removeSome()
		case dice < 10:
			m.replaySome()
		case dice < 11:
			m.extendSome()
		case dice < 17:
			m.leaseSome()
		default:
			m.look()
		}
		if step == 40 || step == 80 {
			m.slots *= 4
			m.setTopic()
		}
		if step%50 == 49 {
			m.compare()
		}
	}
	m.drain()
	m.compare()
}

func (m *model) say(format string, args ...any) {
	m.log = append(m.log, fmt.Sprintf(format, args...))
}

func (m *model) setTopic() {
	m.say("slots %d", m.slots)
	topic := engine.Topic{Slots: m.slots}
	if m.kept {
		topic.Retain = long
	}
	m.make(topic)
}

// any returns one of the engines.
func (m *model) any() engine.Engine {
	if m.rng.IntN(2) == 0 {
		return m.engine
	}
	return m.second
}

// ids returns a few ids, now and then the same one twice.
func (m *model) ids() []string {
	ids := make([]string, 1+m.rng.IntN(4))
	for i := range ids {
		ids[i] = fmt.Sprintf("{%d}%d", m.rng.IntN(6), m.rng.IntN(3))
	}
	return ids
}

func (m *model) due() (time.Time, bool) {
	if m.rng.IntN(2) == 0 {
		return newDue.Add(time.Duration(m.rng.IntN(1000)) * time.Millisecond), true
	}
	return past.Add(time.Duration(m.rng.IntN(1000)) * time.Millisecond), false
}

func (m *model) was(id string) engine.State {
	if task := m.tasks[id]; task != nil {
		return task.state
	}
	return engine.None
}

// void ends the lease of a running task.
func (m *model) void(task *modelTask) {
	if task != nil && task.state == engine.Running {
		m.old = append(m.old, task.token)
	}
}

func (m *model) set() {
	ids := m.ids()
	tasks := make([]engine.Task, len(ids))
	waits := make([]bool, len(ids))
	absent, keep := m.rng.IntN(3) == 0, m.rng.IntN(3) == 0
	keep = keep && !absent
	for i, id := range ids {
		tasks[i] = engine.Task{Topic: m.topic, ID: id, Payload: fmt.Appendf(nil, "%d", m.rng.Uint64()), IfAbsent: absent, KeepDue: keep}
		tasks[i].Due, waits[i] = m.due()
		if m.rng.IntN(3) == 0 {
			tasks[i].Trace = trace
		}
	}
	before := m.now()
	answers, err := m.any().Set(m.ctx, tasks)
	after := m.now()
	m.say("set %v absent=%v keep=%v waits=%v: %v %v", ids, absent, keep, waits, answers, err)
	require.NoError(m.t, err)
	for i, id := range ids {
		require.NoError(m.t, answers[i].Err)
		was, old := m.was(id), m.tasks[id]
		require.Equal(m.t, was, answers[i].Was, "task %s", id)
		if absent && (was == engine.Pending || was == engine.Running || was == engine.Dead) {
			require.Equal(m.t, old.version, answers[i].Version)
			continue
		}
		require.Greater(m.t, answers[i].Version, m.ended[id], "task %s", id)
		if old != nil {
			require.Greater(m.t, answers[i].Version, old.version, "task %s", id)
		}
		m.void(old)
		if keep && (was == engine.Pending || was == engine.Running) {
			tasks[i].Due, waits[i] = old.due, was == engine.Pending && old.waits
		}
		sameTime(m.t, tasks[i].Due, answers[i].Due, "Answer.Due of "+id)
		m.tasks[id] = &modelTask{state: engine.Pending, version: answers[i].Version, due: tasks[i].Due, waits: waits[i], payload: string(tasks[i].Payload)}
		m.tasks[id].traced, m.tasks[id].before, m.tasks[id].after = tasks[i].Trace != nil, before, after
	}
}

func (m *model) move() {
	ids := m.ids()
	moves := make([]engine.Move, len(ids))
	waits := make([]bool, len(ids))
	for i, id := range ids {
		moves[i].Key = m.key(id)
		moves[i].Due, waits[i] = m.due()
	}
	answers, err := m.any().Move(m.ctx, moves)
	m.say("move %v waits=%v: %v %v", ids, waits, answers, err)
	require.NoError(m.t, err)
	for i, id := range ids {
		require.Equal(m.t, m.was(id), answers[i].Was, "task %s", id)
		if task := m.tasks[id]; m.was(id) == engine.Pending {
			require.Greater(m.t, answers[i].Version, task.version)
			task.version, task.due, task.waits = answers[i].Version, moves[i].Due, waits[i]
		}
	}
}

func (m *model) removeSome() {
	ids := m.ids()
	all := removals(m.keys(ids...))
	if m.rng.IntN(2) == 0 {
		for i, id := range ids {
			m.only(&all[i], m.tasks[id])
		}
	}
	answers, err := m.any().Remove(m.ctx, all)
	m.say("remove %v: %v %v", all, answers, err)
	require.NoError(m.t, err)
	for i, id := range ids {
		was, task := m.was(id), m.tasks[id]
		require.Equal(m.t, was, answers[i].Was, "task %s", id)
		live := was == engine.Pending || was == engine.Running || was == engine.Dead
		switch {
		case live && (all[i].State == engine.None || all[i].State == was) && (all[i].Version == 0 || all[i].Version == task.version):
			require.Zero(m.t, answers[i].Version, "task %s", id)
			m.void(task)
			m.end(id, engine.Removed)
		case task != nil:
			require.Equal(m.t, task.version, answers[i].Version, "task %s stays", id)
		}
	}
}

// only restricts a removal to a state, a version, both or neither: sometimes those of the task.
func (m *model) only(removal *engine.Removal, task *modelTask) {
	removal.State = []engine.State{engine.None, engine.Pending, engine.Running, engine.Dead}[m.rng.IntN(4)]
	switch {
	case task != nil && m.rng.IntN(2) == 0:
		removal.Version = task.version
	case m.rng.IntN(2) == 0:
		removal.Version = 1 + m.rng.Int64N(1<<50)
	}
}

// end makes a task done or removed.
func (m *model) end(id string, state engine.State) {
	task := m.tasks[id]
	if state == engine.Removed && task.state == engine.Running {
		task.failures++
	}
	task.state, task.waits = state, false
	if !m.kept {
		m.ended[id] = task.version
		delete(m.tasks, id)
	}
}

func (m *model) replaySome() {
	ids := m.ids()
	answers, err := m.any().Replay(m.ctx, m.keys(ids...))
	m.say("replay %v: %v %v", ids, answers, err)
	require.NoError(m.t, err)
	for i, id := range ids {
		require.Equal(m.t, m.was(id), answers[i].Was, "task %s", id)
		if task := m.tasks[id]; m.was(id) == engine.Dead {
			require.Greater(m.t, answers[i].Version, task.version)
			task.state, task.version, task.due = engine.Pending, answers[i].Version, answers[i].Due
			task.attempts, task.waits, task.replayed = 0, false, true
		}
	}
}

// tokens returns the tokens of some running tasks, and some void ones.
func (m *model) tokens() (tokens []engine.Token, held []bool) {
	for _, id := range slices.Sorted(maps.Keys(m.tasks)) {
		if task := m.tasks[id]; task.state == engine.Running && m.rng.IntN(2) == 0 {
			tokens, held = append(tokens, task.token), append(held, true)
		}
	}
	for range m.rng.IntN(3) {
		if len(m.old) > 0 {
			tokens, held = append(tokens, m.old[m.rng.IntN(len(m.old))]), append(held, false)
		}
	}
	m.rng.Shuffle(len(tokens), func(i, j int) {
		tokens[i], tokens[j] = tokens[j], tokens[i]
		held[i], held[j] = held[j], held[i]
	})
	return tokens, held
}

func (m *model) extendSome() {
	tokens, want := m.tokens()
	held, err := m.any().Extend(m.ctx, tokens, 2*long)
	m.say("extend %v: %v %v", tokens, held, err)
	require.NoError(m.t, err)
	require.ElementsMatch(m.t, want, held)
	for i := range want {
		require.Equal(m.t, want[i], held[i], "token %v", tokens[i])
	}
}

func (m *model) leaseSome() {
	tokens, want := m.tokens()
	ask := engine.Ask{Max: m.rng.IntN(6)}
	for i, token := range tokens {
		outcome := engine.Outcome{Token: token, As: []engine.State{engine.Done, engine.Dead, engine.Pending}[m.rng.IntN(3)]}
		if outcome.As != engine.Done {
			outcome.Error = fmt.Sprintf("failure %d", m.rng.Uint64())
		}
		if outcome.As == engine.Pending && m.rng.IntN(2) == 0 {
			outcome.After = long
		}
		if outcome.As != engine.Done && m.rng.IntN(3) == 0 {
			outcome.Release = true
		}
		if outcome.As == engine.Pending && m.rng.IntN(3) == 0 {
			outcome.NewRun, outcome.After = true, 0
			if m.rng.IntN(2) == 0 {
				outcome.Error = ""
			}
			outcome.Due, _ = m.due()
		}
		ask.Settle = append(ask.Settle, outcome)
		if want[i] {
			m.settled(outcome)
		}
	}
	m.leaseBatch(ask, want)
}

// settled applies a valid outcome.
func (m *model) settled(outcome engine.Outcome) {
	task := m.tasks[outcome.Token.ID]
	m.old = append(m.old, task.token)
	if outcome.NewRun {
		task.state, task.attempts, task.failure, task.replayed = engine.Pending, 0, outcome.Error, false
		task.due, task.waits = outcome.Due, !outcome.Due.Before(newDue)
		switch {
		case outcome.Release:
			task.calls--
		case outcome.Error != "":
			task.failures++
		}
		return
	}
	if outcome.As == engine.Dead || outcome.As == engine.Pending && !outcome.Release {
		task.failure, task.replayed = outcome.Error, false
	}
	switch {
	case outcome.Release:
		task.attempts--
		task.calls--
	case outcome.As != engine.Done:
		task.failures++
	}
	task.state = outcome.As
	task.waits = outcome.As == engine.Pending && outcome.After > 0
	if outcome.As == engine.Done {
		m.end(outcome.Token.ID, engine.Done)
	}
}

func (m *model) leaseBatch(ask engine.Ask, want []bool) int {
	batch, err := m.any().Lease(m.ctx, m.ask(ask))
	m.say("lease %+v: settled %v", ask, batch.Settled)
	for _, leased := range batch.Leased {
		m.say("    leased %s version %d attempt %d lease %d", leased.ID, leased.Version, leased.Attempts, leased.Token.Lease)
	}
	require.NoError(m.t, err)
	m.check(ask, batch)
	for i := range want {
		require.Equal(m.t, want[i], batch.Settled[i], "token %v", ask.Settle[i].Token)
	}
	for _, leased := range batch.Leased {
		task := m.tasks[leased.ID]
		require.NotNil(m.t, task, "task %s is not there", leased.ID)
		require.Equal(m.t, engine.Pending, task.state, "task %s", leased.ID)
		require.False(m.t, task.waits, "task %s is not due", leased.ID)
		task.state, task.token = engine.Running, leased.Token
		task.attempts++
		task.calls++
		m.same(leased.Task, task)
		require.False(m.t, leased.Again)
		for _, old := range m.old {
			require.False(m.t, old.ID == leased.ID && old.Lease == leased.Token.Lease, "lease %d of %s is given twice", old.Lease, old.ID)
		}
	}
	return len(batch.Leased)
}

func (m *model) same(got engine.Task, want *modelTask) {
	m.t.Helper()
	require.Equal(m.t, want.state, got.State, "task %s", got.ID)
	require.Equal(m.t, want.version, got.Version, "task %s", got.ID)
	require.Equal(m.t, want.attempts, got.Attempts, "task %s", got.ID)
	require.Equal(m.t, want.calls, got.Calls, "task %s", got.ID)
	require.Equal(m.t, want.failures, got.Failures, "task %s", got.ID)
	if want.created.IsZero() {
		m.created(want.before, want.after, got)
		want.created = got.Created
	}
	sameTime(m.t, want.created, got.Created, "Created of "+got.ID)
	require.Equal(m.t, want.traced, got.Trace != nil, "task %s", got.ID)
	require.Equal(m.t, want.payload, string(got.Payload), "task %s", got.ID)
	sameTime(m.t, want.due, got.Due, "Due of "+got.ID)
	if !want.replayed {
		require.Equal(m.t, want.failure, got.Error, "task %s", got.ID)
	}
}

func (m *model) look() {
	ids := m.ids()
	tasks, err := m.any().Get(m.ctx, m.keys(ids...))
	m.say("get %v: %v", ids, err)
	require.NoError(m.t, err)
	for i, id := range ids {
		if want := m.tasks[id]; want != nil {
			m.same(tasks[i], want)
		} else {
			require.Equal(m.t, engine.Task{Topic: m.topic, ID: id}, tasks[i])
		}
	}
}

// compare compares all tasks with the engine's.
func (m *model) compare() {
	m.say("compare")
	want := map[engine.State][]string{}
	ids := slices.Sorted(maps.Keys(m.tasks))
	for i, task := range m.getAll(ids...) {
		want[task.State] = append(want[task.State], ids[i])
		m.same(task, m.tasks[ids[i]])
	}
	for state := engine.Pending; state <= engine.Removed; state++ {
		var got []string
		for _, task := range m.list(state, 1+m.rng.IntN(30)) {
			got = append(got, task.ID)
		}
		require.ElementsMatch(m.t, want[state], got, "tasks that are %v", state)
	}
}

// drain leases all due tasks.
func (m *model) drain() {
	left := 0
	for _, task := range m.tasks {
		if task.state == engine.Pending && !task.waits {
			left++
		}
	}
	for start := time.Now(); left > 0; {
		require.Less(m.t, time.Since(start), patient, "%d tasks are not leased", left)
		leased := m.leaseBatch(engine.Ask{Max: 10}, nil)
		if left -= leased; leased == 0 {
			time.Sleep(5 * time.Millisecond)
		}
		_, err := m.purge(m.ctx, m.engine)
		require.NoError(m.t, err)
	}
	m.idle(20 * time.Millisecond)
}
