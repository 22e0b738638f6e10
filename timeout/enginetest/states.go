package enginetest

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/heartwheel-go/heartwheel/timeout/engine"
)

// before is the state of a task before a verb.
type before struct {
	name  string
	state engine.State
	bring func(r *rig, id string) engine.Token
}

var (
	absent  = before{"absent", engine.None, func(*rig, string) (none engine.Token) { return none }}
	waiting = before{"waiting", engine.Pending, func(r *rig, id string) (none engine.Token) {
		r.set(id, r.later())
		return none
	}}
	moved = before{"moved", engine.Pending, func(r *rig, id string) (none engine.Token) {
		r.set(id, r.later())
		require.Equal(r.t, engine.Pending, r.move(id, r.later().Add(long)).Was)
		return none
	}}
	failed = before{"failed", engine.Pending, func(r *rig, id string) engine.Token {
		token := r.leased(id, long).Token
		require.Equal(r.t, []bool{true}, r.settle(engine.Outcome{Token: token, As: engine.Pending, After: long, Error: "broken"}))
		return token
	}}
	running = before{"running", engine.Running, func(r *rig, id string) engine.Token { return r.leased(id, long).Token }}
	dead    = before{"dead", engine.Dead, func(r *rig, id string) engine.Token {
		token := r.leased(id, long).Token
		require.Equal(r.t, []bool{true}, r.settle(engine.Outcome{Token: token, As: engine.Dead, Error: "broken"}))
		return token
	}}
	done = before{"done", engine.Done, func(r *rig, id string) engine.Token {
		token := r.leased(id, long).Token
		require.Equal(r.t, []bool{true}, r.settle(engine.Outcome{Token: token, As: engine.Done}))
		return token
	}}
	removed = before{"removed", engine.Removed, func(r *rig, id string) (none engine.Token) {
		r.set(id, r.later())
		require.Equal(r.t, engine.Pending, r.remove(id).Was)
		return none
	}}
)

// verb is a call for several tasks, with the states that it changes.
type verb struct {
	name    string
	call    func(r *rig, ids []string) ([]engine.Answer, error)
	changes []engine.State
	after   engine.State
}

var verbs = []verb{
	{"set", func(r *rig, ids []string) ([]engine.Answer, error) { return r.setLater(ids, func(*engine.Task) {}) }, []engine.State{
		engine.None, engine.Pending, engine.Running, engine.Done, engine.Dead, engine.Removed,
	}, engine.Pending},
	{"setIfAbsent", func(r *rig, ids []string) ([]engine.Answer, error) {
		return r.setLater(ids, func(task *engine.Task) { task.IfAbsent = true })
	}, []engine.State{engine.None, engine.Done, engine.Removed}, engine.Pending},
	{"setKeepDue", func(r *rig, ids []string) ([]engine.Answer, error) {
		return r.setLater(ids, func(task *engine.Task) { task.KeepDue = true })
	}, []engine.State{
		engine.None, engine.Pending, engine.Running, engine.Done, engine.Dead, engine.Removed,
	}, engine.Pending},
	{"move", func(r *rig, ids []string) ([]engine.Answer, error) {
		var moves []engine.Move
		for _, key := range r.keys(ids...) {
			moves = append(moves, engine.Move{Key: key, Due: newDue})
		}
		return r.engine.Move(r.ctx, moves)
	}, []engine.State{engine.Pending}, engine.Pending},
	{"remove", func(r *rig, ids []string) ([]engine.Answer, error) {
		return r.engine.Remove(r.ctx, removals(r.keys(ids...)))
	}, []engine.State{engine.Pending, engine.Running, engine.Dead}, engine.Removed},
	{"drop", func(r *rig, ids []string) ([]engine.Answer, error) {
		return r.removeAs(ids, func(engine.Task) engine.Removal { return engine.Removal{State: engine.Dead} })
	}, []engine.State{engine.Dead}, engine.Removed},
	{"removeThis", func(r *rig, ids []string) ([]engine.Answer, error) {
		return r.removeAs(ids, func(seen engine.Task) engine.Removal { return engine.Removal{Version: seen.Version} })
	}, []engine.State{engine.Pending, engine.Running, engine.Dead}, engine.Removed},
	{"removeAnother", func(r *rig, ids []string) ([]engine.Answer, error) {
		return r.removeAs(ids, func(seen engine.Task) engine.Removal { return engine.Removal{Version: seen.Version + 1} })
	}, nil, engine.Removed},
	{"replay", func(r *rig, ids []string) ([]engine.Answer, error) {
		return r.engine.Replay(r.ctx, r.keys(ids...))
	}, []engine.State{engine.Dead}, engine.Pending},
}

// newDue is the action time of sets and moves, in the year 2100.
var newDue = time.UnixMilli(4_102_444_800_123)

// removeAs removes tasks with conditions on their present state.
func (r *rig) removeAs(ids []string, condition func(seen engine.Task) engine.Removal) ([]engine.Answer, error) {
	all := make([]engine.Removal, len(ids))
	for i, task := range r.getAll(ids...) {
		all[i] = condition(task)
		all[i].Key = task.Key()
		require.NoError(r.t, all[i].Check())
	}
	return r.engine.Remove(r.ctx, all)
}

func (r *rig) setLater(ids []string, option func(*engine.Task)) ([]engine.Answer, error) {
	var tasks []engine.Task
	for _, id := range ids {
		task := r.task(id, newDue)
		task.Payload = []byte("new")
		option(&task)
		tasks = append(tasks, task)
	}
	return r.engine.Set(r.ctx, tasks)
}

func testStatesKept(r *rig) {
	testStates(r, engine.Topic{Slots: 4, Retain: long}, absent, waiting, moved, failed, running, dead, done, removed)
}

func testStatesForgotten(r *rig) {
	testStates(r, engine.Topic{Slots: 4}, absent, waiting, moved, failed, running, dead)
	for _, b := range []before{done, removed} {
		b.bring(r, b.name)
		require.Equal(r.t, engine.Task{Topic: r.topic, ID: b.name}, r.get(b.name), "is not kept")
	}
}

func testStates(r *rig, topic engine.Topic, befores ...before) {
	made := r.make(topic)
	for _, verb := range verbs {
		var ids []string
		var tokens []engine.Token
		for _, b := range befores {
			id := verb.name + "/" + b.name
			ids = append(ids, id)
			tokens = append(tokens, b.bring(r, id))
		}
		was := r.getAll(ids...)
		answers, err := verb.call(r, ids)
		require.NoError(r.t, err)
		require.Len(r.t, answers, len(ids))
		for i, b := range befores {
			r.t.Run(ids[i], func(t *testing.T) {
				inner := *r
				inner.t = t
				require.NoError(t, answers[i].Err)
				require.Equal(t, b.state, was[i].State)
				require.Equal(t, b.state, answers[i].Was)
				inner.checkVerb(verb, made, was[i], answers[i], tokens[i])
			})
		}
	}
}

// checkVerb checks one task after the call.
func (r *rig) checkVerb(verb verb, topic engine.Topic, was engine.Task, answer engine.Answer, token engine.Token) {
	t, task := r.t, r.get(was.ID)
	if slices.Contains(verb.changes, was.State) {
		if token.Lease != 0 {
			require.Equal(t, []bool{false}, r.extend(long, token), "the lease is void")
			require.Equal(t, []bool{false}, r.settle(engine.Outcome{Token: token, As: engine.Dead}), "the lease is void")
			require.Equal(t, plain(task), plain(r.get(was.ID)), "a void lease changes nothing")
		}
		r.checkChanged(verb, topic, was, task, answer)
		return
	}
	require.Equal(t, plain(was), plain(task), "nothing is changed")
	switch was.State {
	case engine.Pending, engine.Running, engine.Dead, engine.Done, engine.Removed:
		require.Equal(t, was.Version, answer.Version)
		sameTime(t, was.Due, answer.Due, "Answer.Due")
	case engine.None:
		require.Zero(t, answer.Version)
		require.True(t, answer.Due.IsZero())
	}
	if was.State == engine.Running {
		require.Equal(t, []bool{true}, r.extend(long, token), "the lease still counts")
	}
}

func (r *rig) checkChanged(verb verb, topic engine.Topic, was, task engine.Task, answer engine.Answer) {
	t := r.t
	if verb.after == engine.Removed {
		require.Zero(t, answer.Version)
		require.True(t, answer.Due.IsZero(), "%v", answer.Due)
		if topic.Retain == 0 {
			require.Equal(t, engine.Task{Topic: r.topic, ID: was.ID}, task)
			return
		}
		require.Equal(t, engine.Removed, task.State)
		require.Equal(t, was.Payload, task.Payload)
		sameTime(t, was.Due, task.Due, "Due")
		r.recent(task.Until)
		return
	}
	require.Equal(t, engine.Pending, task.State)
	require.Equal(t, task.Version, answer.Version)
	sameTime(t, task.Due, answer.Due, "Answer.Due")
	until := task.Due
	if verb.name == "setKeepDue" && was.State == engine.Pending {
		until = was.Until
	}
	sameTime(t, until, task.Until, "Until")
	switch verb.name {
	case "replay":
		require.Greater(t, task.Version, was.Version)
		require.Zero(t, task.Attempts)
		require.Equal(t, was.Payload, task.Payload)
		r.recent(task.Due)
		leased := r.lease(1, long)[0]
		require.Equal(t, was.ID, leased.ID)
		require.Equal(t, 1, leased.Attempts)
		require.Equal(t, []bool{true}, r.settle(engine.Outcome{Token: leased.Token, As: engine.Done}))
	case "move":
		require.Greater(t, task.Version, was.Version)
		sameTime(t, newDue, task.Due, "Due")
		require.Equal(t, was.Attempts, task.Attempts)
		require.Equal(t, was.Error, task.Error)
		require.Equal(t, was.Payload, task.Payload)
	default:
		require.Greater(t, task.Version, was.Version)
		due := newDue
		if verb.name == "setKeepDue" && (was.State == engine.Pending || was.State == engine.Running) {
			due = was.Due
		}
		sameTime(t, due, task.Due, "Due")
		require.Zero(t, task.Attempts)
		require.Empty(t, task.Error)
		require.Equal(t, "new", string(task.Payload))
		if due.Before(r.now()) { // the tasks of other verbs are to be the first
			require.Equal(t, engine.Pending, r.move(was.ID, newDue).Was)
		}
	}
}

// recent checks that a time is within the last minute, by the engine's clock.
func (r *rig) recent(at time.Time) {
	r.t.Helper()
	ago := r.now().Sub(at)
	require.True(r.t, ago >= -time.Millisecond && ago < time.Minute, fmt.Sprintf("%v ago", ago))
}
