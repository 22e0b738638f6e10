package timeout_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/heartwheel-go/heartwheel/timeout"
	"github.com/heartwheel-go/heartwheel/timeout/engine"
	"github.com/heartwheel-go/heartwheel/timeout/memory"
)

// readEngine counts the tasks read.
type readEngine struct {
	engine.Engine
	reads atomic.Int32
}

func (e *readEngine) Get(ctx context.Context, keys []engine.Key) ([]engine.Task, error) {
	e.reads.Add(int32(len(keys)))
	return e.Engine.Get(ctx, keys)
}

// A payload may be large, and nobody looks at it.
func TestFeedbackReadsATaskOnlyIfTheOutcomeDependsOnIt(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		store, err := memory.New(memory.Config{})
		require.NoError(t, err)
		t.Cleanup(func() { require.NoError(t, store.Close()) })
		e := &readEngine{Engine: store}
		r := rigOn(t, e, timeout.Config{}).pulled(timeout.Topic{Retries: 1, Retain: time.Hour})
		for name, c := range map[string]struct {
			failure error
			state   timeout.State
			reads   int32
		}{
			"done":      {nil, timeout.Done, 0},
			"dead":      {timeout.Permanent(errors.New("never")), timeout.Dead, 0},
			"again":     {timeout.Again(time.Hour), timeout.Pending, 0},
			"not begun": {errors.Join(timeout.ErrStopping, errors.New("and broken")), timeout.Pending, 0},
			"retry":     {errors.New("broken"), timeout.Pending, 1},
			"later":     {timeout.RetryAfter(errors.New("busy"), time.Hour), timeout.Pending, 1},
		} {
			r.set(name, 0)
			leased := r.pull(1, time.Minute)
			require.Len(t, leased, 1, name)
			e.reads.Store(0)
			require.True(t, r.tell(leased[0].Token, c.failure), name)
			require.Equal(t, c.reads, e.reads.Load(), name)
			require.Equal(t, c.state, r.state(name).State, name)
			_, err := r.Remove(t.Context(), key(name))
			require.NoError(t, err)
		}
	})
}

// skewed is an engine with another clock than this node, as far as a center asks.
type skewed struct {
	engine.Engine
	engine.Log
	ahead time.Duration
}

func (e *skewed) Now(ctx context.Context) (time.Time, error) {
	now, err := e.Engine.Now(ctx)
	return now.Add(e.ahead), err
}

func (e *skewed) Lease(ctx context.Context, ask engine.Ask) (engine.Batch, error) {
	batch, err := e.Engine.Lease(ctx, ask)
	batch.Now = batch.Now.Add(e.ahead)
	if !batch.Next.IsZero() {
		batch.Next = batch.Next.Add(e.ahead)
	}
	return batch, err
}

func TestThePulledAttemptsInTheLogAreTimedByTheEnginesClock(t *testing.T) {
	for _, ahead := range []time.Duration{-time.Hour, time.Hour} {
		inBubble(t, func(t *testing.T) {
			store, err := memory.New(memory.Config{})
			require.NoError(t, err)
			t.Cleanup(func() { require.NoError(t, store.Close()) })
			r := rigOn(t, &skewed{store, store, ahead}, timeout.Config{}).pulled(timeout.Topic{Retain: time.Hour})
			r.set("1", 0)
			leased := r.pull(1, time.Minute)
			require.Len(t, leased, 1)
			pass(10 * time.Second)
			require.True(t, r.tell(leased[0].Token, nil))
			log, err := r.Executions(t.Context(), key("1"), 1)
			require.NoError(t, err)
			require.Equal(t, 10*time.Second, log[0].Took)
			require.WithinDuration(t, time.Now().Add(ahead-10*time.Second), log[0].Started, time.Millisecond)
		})
	}
}

func TestTasksNotBegunAreReleasedByOneCall(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		store, err := memory.New(memory.Config{})
		require.NoError(t, err)
		t.Cleanup(func() { require.NoError(t, store.Close()) })
		e := &countingEngine{Engine: store}
		r := rigOn(t, e, timeout.Config{FeedbackKeys: [][]byte{bytes.Repeat([]byte("k"), 32)}}).pulled(timeout.Topic{})
		r.backlog("orders", engine.MaxPull)
		leased := r.pull(engine.MaxPull, time.Minute)
		require.Len(t, leased, engine.MaxPull)
		states := func(want timeout.State, attempts int) {
			t.Helper()
			for i := range leased {
				task := r.state(fmt.Sprint(i))
				require.Equal(t, want, task.State)
				require.Equal(t, attempts, task.Attempts)
			}
		}
		forged := leased[1]
		forged.Token.Proof = leased[0].Token.Proof
		require.ErrorIs(t, r.Release(t.Context(), leased[0], forged), timeout.ErrForged)
		require.NoError(t, r.Release(t.Context()))
		states(timeout.Running, 1)

		before := e.calls.Load()
		require.NoError(t, r.Release(t.Context(), leased...))
		require.Equal(t, before+1, e.calls.Load())
		states(timeout.Pending, 0)
		again := r.pull(engine.MaxPull, time.Minute)
		require.Len(t, again, engine.MaxPull)
		require.NoError(t, r.Release(t.Context(), leased...), "those leases have ended")
		states(timeout.Running, 1)

		_, err = r.SetTopic(t.Context(), timeout.Topic{Name: "mails", Pull: true})
		require.NoError(t, err)
		_, err = r.Set(t.Context(), timeout.Task{Topic: "mails", ID: "1"})
		require.NoError(t, err)
		mails, err := r.Pull(t.Context(), timeout.Pull{Topic: "mails", Wait: time.Minute})
		require.NoError(t, err)
		require.NoError(t, r.DropTopic(t.Context(), "mails"))
		require.NoError(t, r.Release(t.Context(), append(mails, again...)...))
		states(timeout.Pending, 0)
	})
}
