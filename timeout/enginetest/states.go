package enginetest

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/heartwheel-go/heartwheel/timeout"
)

// before is what a task can be like when a verb comes.
type before struct {
	name  string
	state timeout.State
	bring func(r *rig, id string) timeout.Token
}

var (
	absent  = before{"absent", timeout.None, func(*rig, string) (none timeout.Token) { return none }}
	waiting = before{"waiting", timeout.Pending, func(r *rig, id string) (none timeout.Token) {
		r.set(id, r.later())
		return none
	}}
	failed = before{"failed", timeout.Pending, func(r *rig, id string) timeout.Token {
		token := r.leased(id, long).Token
		require.Equal(r.t, []bool{true}, r.settle(timeout.Outcome{Token: token, As: timeout.Pending, After: long, Error: "broken"}))
		return token
	}}
	running = before{"running", timeout.Running, func(r *rig, id string) timeout.Token { return r.leased(id, long).Token }}
	dead    = before{"dead", timeout.Dead, func(r *rig, id string) timeout.Token {
		token := r.leased(id, long).Token
		require.Equal(r.t, []bool{true}, r.settle(timeout.Outcome{Token: token, As: timeout.Dead, Error: "broken"}))
		return token
	}}
	done = before{"done", timeout.Done, func(r *rig, id string) timeout.Token {
		token := r.leased(id, long).Token
		require.Equal(r.t, []bool{true}, r.settle(timeout.Outcome{Token: token, As: timeout.Done}))
		return token
	}}
	removed = before{"removed", timeout.Removed, func(r *rig, id string) (none timeout.Token) {
		r.set(id, r.later())
		require.Equal(r.t, timeout.Pending, r.remove(id).Was)
		return none
	}}
)

// verb is a call for several tasks, and in which states it changes something.
type verb struct {
	name    string
	call    func(r *rig, ids []string) ([]timeout.Answer, error)
	changes []timeout.State
	after   timeout.State
}

var verbs = []verb{
	{"set", func(r *rig, ids []string) ([]timeout.Answer, error) { return r.setLater(ids, false) }, []timeout.State{
		timeout.None, timeout.Pending, timeout.Running, timeout.Done, timeout.Dead, timeout.Removed,
	}, timeout.Pending},
	{"setIfAbsent", func(r *rig, ids []string) ([]timeout.Answer, error) { return r.setLater(ids, true) }, []timeout.State{
		timeout.None, timeout.Done, timeout.Removed,
	}, timeout.Pending},
	{"move", func(r *rig, ids []string) ([]timeout.Answer, error) {
		var moves []timeout.Move
		for _, key := range r.keys(ids...) {
			moves = append(moves, timeout.Move{Key: key, Due: newDue})
		}
		return r.engine.Move(r.ctx, moves)
	}, []timeout.State{timeout.Pending}, timeout.Pending},
	{"remove", func(r *rig, ids []string) ([]timeout.Answer, error) {
		return r.engine.Remove(r.ctx, removals(r.keys(ids...)))
	}, []timeout.State{timeout.Pending, timeout.Running, timeout.Dead}, timeout.Removed},
	{"drop", func(r *rig, ids []string) ([]timeout.Answer, error) {
		return r.removeAs(ids, func(timeout.Task) timeout.Removal { return timeout.Removal{State: timeout.Dead} })
	}, []timeout.State{timeout.Dead}, timeout.Removed},
	{"removeThis", func(r *rig, ids []string) ([]timeout.Answer, error) {
		return r.removeAs(ids, func(seen timeout.Task) timeout.Removal { return timeout.Removal{Version: seen.Version} })
	}, []timeout.State{timeout.Pending, timeout.Running, timeout.Dead}, timeout.Removed},
	{"removeAnother", func(r *rig, ids []string) ([]timeout.Answer, error) {
		return r.removeAs(ids, func(seen timeout.Task) timeout.Removal { return timeout.Removal{Version: seen.Version + 1} })
	}, nil, timeout.Removed},
	{"replay", func(r *rig, ids []string) ([]timeout.Answer, error) {
		return r.engine.Replay(r.ctx, r.keys(ids...))
	}, []timeout.State{timeout.Dead}, timeout.Pending},
}

// newDue is the action time that sets and moves give, in the year 2100.
var newDue = time.UnixMilli(4_102_444_800_123)

// removeAs removes tasks, with conditions that depend on what is seen of them.
func (r *rig) removeAs(ids []string, condition func(seen timeout.Task) timeout.Removal) ([]timeout.Answer, error) {
	all := make([]timeout.Removal, len(ids))
	for i, task := range r.getAll(ids...) {
		all[i] = condition(task)
		all[i].Key = task.Key()
		require.NoError(r.t, all[i].Check())
	}
	return r.engine.Remove(r.ctx, all)
}

func (r *rig) setLater(ids []string, ifAbsent bool) ([]timeout.Answer, error) {
	var tasks []timeout.Task
	for _, id := range ids {
		task := r.task(id, newDue)
		task.Payload = []byte("new")
		task.IfAbsent = ifAbsent
		tasks = append(tasks, task)
	}
	return r.engine.Set(r.ctx, tasks)
}

func testStatesKept(r *rig) {
	testStates(r, timeout.Topic{Slots: 4, Retain: long}, absent, waiting, failed, running, dead, done, removed)
}

func testStatesForgotten(r *rig) {
	testStates(r, timeout.Topic{Slots: 4}, absent, waiting, failed, running, dead)
	for _, b := range []before{done, removed} {
		b.bring(r, b.name)
		require.Equal(r.t, timeout.Task{Topic: r.topic, ID: b.name}, r.get(b.name), "is not kept")
	}
}

func testStates(r *rig, topic timeout.Topic, befores ...before) {
	made := r.make(topic)
	for _, verb := range verbs {
		var ids []string
		var tokens []timeout.Token
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

// checkVerb looks at what has become of one task.
func (r *rig) checkVerb(verb verb, topic timeout.Topic, was timeout.Task, answer timeout.Answer, token timeout.Token) {
	t, task := r.t, r.get(was.ID)
	for _, state := range verb.changes {
		if state == was.State {
			if token.Lease != 0 {
				require.Equal(t, []bool{false}, r.extend(long, token), "the lease is void")
				require.Equal(t, []bool{false}, r.settle(timeout.Outcome{Token: token, As: timeout.Dead}), "the lease is void")
				require.Equal(t, plain(task), plain(r.get(was.ID)), "a void lease changes nothing")
			}
			r.checkChanged(verb, topic, was, task, answer)
			return
		}
	}
	require.Equal(t, plain(was), plain(task), "nothing is changed")
	switch was.State {
	case timeout.Pending, timeout.Running, timeout.Dead, timeout.Done, timeout.Removed:
		require.Equal(t, was.Version, answer.Version)
		sameTime(t, was.Due, answer.Due, "Answer.Due")
	case timeout.None:
		require.Zero(t, answer.Version)
		require.True(t, answer.Due.IsZero())
	}
	if was.State == timeout.Running {
		require.Equal(t, []bool{true}, r.extend(long, token), "the lease still counts")
	}
}

func (r *rig) checkChanged(verb verb, topic timeout.Topic, was, task timeout.Task, answer timeout.Answer) {
	t := r.t
	if verb.after == timeout.Removed {
		require.Zero(t, answer.Version)
		require.True(t, answer.Due.IsZero(), "%v", answer.Due)
		if topic.Retain == 0 {
			require.Equal(t, timeout.Task{Topic: r.topic, ID: was.ID}, task)
			return
		}
		require.Equal(t, timeout.Removed, task.State)
		require.Equal(t, was.Payload, task.Payload)
		sameTime(t, was.Due, task.Due, "Due")
		r.recent(task.Until)
		return
	}
	require.Equal(t, timeout.Pending, task.State)
	require.Equal(t, task.Version, answer.Version)
	sameTime(t, task.Due, answer.Due, "Answer.Due")
	sameTime(t, task.Due, task.Until, "Until")
	switch verb.name {
	case "replay":
		require.Greater(t, task.Version, was.Version)
		require.Zero(t, task.Attempts)
		require.Equal(t, was.Payload, task.Payload)
		r.recent(task.Due)
		leased := r.lease(1, long)[0]
		require.Equal(t, was.ID, leased.ID)
		require.Equal(t, 1, leased.Attempts)
		require.Equal(t, []bool{true}, r.settle(timeout.Outcome{Token: leased.Token, As: timeout.Done}))
	case "move":
		require.Greater(t, task.Version, was.Version)
		sameTime(t, newDue, task.Due, "Due")
		require.Equal(t, was.Attempts, task.Attempts)
		require.Equal(t, was.Error, task.Error)
		require.Equal(t, was.Payload, task.Payload)
	default:
		require.Greater(t, task.Version, was.Version)
		sameTime(t, newDue, task.Due, "Due")
		require.Zero(t, task.Attempts)
		require.Empty(t, task.Error)
		require.Equal(t, "new", string(task.Payload))
	}
}

// recent says that a time is one of the last minute, by the engine's clock.
func (r *rig) recent(at time.Time) {
	r.t.Helper()
	ago := r.now().Sub(at)
	require.True(r.t, ago >= -time.Millisecond && ago < time.Minute, fmt.Sprintf("%v ago", ago))
}
