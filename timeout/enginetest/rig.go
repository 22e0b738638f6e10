package enginetest

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/heartwheel-go/heartwheel/timeout/engine"
)

const (
	long    = time.Hour       // later than any test ends
	patient = 3 * time.Minute // for certain events, however busy the machine is
	short   = 200 * time.Millisecond
	busy    = time.Second     // length of a test of concurrent calls
	enough  = 3 * time.Second // length of a test of random calls
)

// past is an action time in the past.
var past = time.UnixMilli(1_000_000_000_000)

// rig is an engine with a topic of the test's own.
type rig struct {
	*suite
	t     *testing.T
	ctx   context.Context
	topic string
}

func (s *suite) rig(t *testing.T) *rig {
	r := &rig{suite: s, t: t, ctx: t.Context(), topic: unique("test")}
	t.Cleanup(func() { _ = s.engine.DropTopic(context.Background(), r.topic) })
	return r
}

// make makes the topic.
func (r *rig) make(topic engine.Topic) engine.Topic {
	r.t.Helper()
	topic.Name = r.topic
	made, err := r.engine.SetTopic(r.ctx, topic, false)
	require.NoError(r.t, err)
	return made
}

// pause pauses the topic, or resumes it.
func (r *rig) pause(paused bool) {
	r.t.Helper()
	topic := r.pauseUntil(paused, time.Time{})
	require.Equal(r.t, paused, topic.Paused)
	require.Equal(r.t, topic, r.find(r.topic))
}

func (r *rig) pauseUntil(paused bool, until time.Time) engine.Topic {
	r.t.Helper()
	topic, err := r.engine.Pause(r.ctx, r.topic, paused, until)
	require.NoError(r.t, err)
	return topic
}

func (r *rig) key(id string) engine.Key { return engine.Key{Topic: r.topic, ID: id} }

func (r *rig) keys(ids ...string) []engine.Key {
	keys := make([]engine.Key, len(ids))
	for i, id := range ids {
		keys[i] = r.key(id)
	}
	return keys
}

func (r *rig) task(id string, due time.Time) engine.Task {
	return engine.Task{Topic: r.topic, ID: id, Due: due, Payload: []byte("payload of " + id)}
}

func (r *rig) now() time.Time {
	r.t.Helper()
	now, err := r.engine.Now(r.ctx)
	require.NoError(r.t, err)
	return now
}

// later returns an action time after the end of the test.
func (r *rig) later() time.Time { return r.now().Add(long).Truncate(time.Millisecond) }

func (r *rig) setAll(tasks ...engine.Task) []engine.Answer {
	r.t.Helper()
	answers, err := r.engine.Set(r.ctx, tasks)
	require.NoError(r.t, err)
	require.Len(r.t, answers, len(tasks))
	for _, answer := range answers {
		require.NoError(r.t, answer.Err)
	}
	return answers
}

func (r *rig) set(id string, due time.Time) engine.Answer {
	r.t.Helper()
	return r.setAll(r.task(id, due))[0]
}

func (r *rig) move(id string, due time.Time) engine.Answer {
	r.t.Helper()
	answers, err := r.engine.Move(r.ctx, []engine.Move{{Key: r.key(id), Due: due}})
	return r.one(answers, err)
}

func (r *rig) remove(id string) engine.Answer {
	r.t.Helper()
	answers, err := r.engine.Remove(r.ctx, removals(r.keys(id)))
	return r.one(answers, err)
}

// removals are removals without conditions.
func removals(keys []engine.Key) []engine.Removal {
	all := make([]engine.Removal, len(keys))
	for i, key := range keys {
		all[i].Key = key
	}
	return all
}

func (r *rig) replay(id string) engine.Answer {
	r.t.Helper()
	answers, err := r.engine.Replay(r.ctx, r.keys(id))
	return r.one(answers, err)
}

func (r *rig) one(answers []engine.Answer, err error) engine.Answer {
	r.t.Helper()
	require.NoError(r.t, err)
	require.Len(r.t, answers, 1)
	require.NoError(r.t, answers[0].Err)
	return answers[0]
}

func (r *rig) getAll(ids ...string) []engine.Task {
	r.t.Helper()
	tasks, err := r.engine.Get(r.ctx, r.keys(ids...))
	require.NoError(r.t, err)
	require.Len(r.t, tasks, len(ids))
	for i, task := range tasks {
		require.Equal(r.t, r.key(ids[i]), task.Key())
	}
	return tasks
}

func (r *rig) get(id string) engine.Task {
	r.t.Helper()
	return r.getAll(id)[0]
}

// executions returns the log of a task, by an engine.Log.
func (r *rig) executions(id string, limit int) []engine.Execution {
	r.t.Helper()
	executions, err := r.engine.(engine.Log).Executions(r.ctx, r.key(id), limit)
	require.NoError(r.t, err)
	require.LessOrEqual(r.t, len(executions), limit)
	return executions
}

// leaseBatch asks with this rig's topic, a long lease, and a node.
func (r *rig) leaseBatch(ask engine.Ask) engine.Batch {
	r.t.Helper()
	batch, err := r.engine.Lease(r.ctx, r.ask(ask))
	require.NoError(r.t, err)
	r.check(ask, batch)
	return batch
}

func (r *rig) ask(ask engine.Ask) engine.Ask {
	ask.Topic = r.topic
	if ask.Node == "" {
		ask.Node = "node"
	}
	if ask.Lease == 0 {
		ask.Lease = long
	}
	return ask
}

// check checks the properties of every batch.
func (r *rig) check(ask engine.Ask, batch engine.Batch) {
	r.t.Helper()
	require.Len(r.t, batch.Settled, len(ask.Settle))
	require.LessOrEqual(r.t, len(batch.Leased), ask.Max)
	require.False(r.t, batch.Now.IsZero(), "Batch.Now")
	once := make(map[string]bool, len(batch.Leased))
	for _, leased := range batch.Leased {
		version := fmt.Sprint(leased.ID, " in version ", leased.Version)
		require.False(r.t, once[version], "%s is leased twice, in attempt %d the second time", version, leased.Attempts)
		once[version] = true
		require.Equal(r.t, r.topic, leased.Topic)
		require.Equal(r.t, engine.Running, leased.State)
		require.Equal(r.t, leased.Key(), leased.Token.Key)
		require.LessOrEqual(r.t, leased.Due.UnixMilli(), batch.Now.UnixMilli(), "%s is early", leased.Key())
		require.Positive(r.t, leased.Attempts)
		require.Positive(r.t, leased.Version)
	}
}

// lease leases count tasks, as soon as they are due.
func (r *rig) lease(count int, lease time.Duration) []engine.Leased {
	r.t.Helper()
	var leased []engine.Leased
	for start := time.Now(); len(leased) < count; {
		require.Less(r.t, time.Since(start), patient, "%d of %d tasks are leased", len(leased), count)
		batch := r.leaseBatch(engine.Ask{Max: count - len(leased), Lease: lease})
		leased = append(leased, batch.Leased...)
		if len(batch.Leased) == 0 {
			time.Sleep(2 * time.Millisecond)
		}
	}
	return leased
}

// leased sets a due task, and leases it.
func (r *rig) leased(id string, lease time.Duration) engine.Leased {
	r.t.Helper()
	r.set(id, past)
	leased := r.lease(1, lease)[0]
	require.Equal(r.t, id, leased.ID)
	return leased
}

// ending makes a lease end soon. The lease was a long one: beside other work, a call can last longer than a short
// lease, and lease its task again.
func (r *rig) ending(leased engine.Leased) engine.Leased {
	r.t.Helper()
	require.Equal(r.t, []bool{true}, r.extend(short, leased.Token))
	return leased
}

func (r *rig) settle(outcomes ...engine.Outcome) []bool {
	r.t.Helper()
	return r.leaseBatch(engine.Ask{Settle: outcomes}).Settled
}

// giveUp settles a task whose lease before this one has ended, as one that has no attempt left.
func (r *rig) giveUp(last engine.Leased) engine.Leased {
	r.t.Helper()
	require.True(r.t, last.Again)
	require.Equal(r.t, []bool{true}, r.settle(engine.Outcome{Token: last.Token, As: engine.Dead, Release: true, Error: last.Error}))
	return last
}

func (r *rig) extend(lease time.Duration, tokens ...engine.Token) []bool {
	r.t.Helper()
	held, err := r.engine.Extend(r.ctx, tokens, lease)
	require.NoError(r.t, err)
	require.Len(r.t, held, len(tokens))
	return held
}

// idle asks again and again for d, and gets no lease.
func (r *rig) idle(d time.Duration) {
	r.t.Helper()
	for start := time.Now(); ; time.Sleep(5 * time.Millisecond) {
		batch := r.leaseBatch(engine.Ask{Max: 10})
		require.Empty(r.t, batch.Leased)
		if time.Since(start) > d {
			return
		}
	}
}

func (r *rig) eventually(what string, ok func() bool) {
	r.t.Helper()
	for start := time.Now(); !ok(); time.Sleep(5 * time.Millisecond) {
		require.Less(r.t, time.Since(start), patient, what)
	}
}

// purge does a part of the maintenance for the topics of all tests, and counts the deleted dead
// tasks.
func (s *suite) purge(ctx context.Context, e engine.Engine) (more bool, err error) {
	purged, err := e.Maintain(ctx)
	s.mu.Lock()
	defer s.mu.Unlock()
	for topic, n := range purged.Dead {
		s.dead[topic] += n
	}
	return purged.More, err
}

// purgedDead returns how many dead tasks of the topic were deleted.
func (r *rig) purgedDead() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.dead[r.topic]
}

// maintain calls Maintain until there is no more to do.
func (r *rig) maintain() {
	r.t.Helper()
	for range 1000 {
		more, err := r.purge(r.ctx, r.engine)
		require.NoError(r.t, err)
		if !more {
			return
		}
	}
	require.Fail(r.t, "Maintain has no end")
}

// plain makes tasks comparable: an engine may answer in any time zone.
func plain(task engine.Task) engine.Task {
	task.Due, task.Until, task.Created = task.Due.UTC(), task.Until.UTC(), task.Created.UTC()
	if len(task.Payload) == 0 {
		task.Payload = nil
	}
	return task
}

func sameTime(t *testing.T, want, got time.Time, what string) {
	t.Helper()
	require.Equal(t, engine.Millis(want), engine.Millis(got), "%s: want %v, got %v", what, want, got)
}
