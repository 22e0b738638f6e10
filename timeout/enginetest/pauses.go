package enginetest

import (
	"errors"
	"slices"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/heartwheel-go/heartwheel/timeout/engine"
)

// testPausedUntil checks that a pause ends by itself, neither before its time nor long after it.
func testPausedUntil(r *rig) {
	topic := r.make(engine.Topic{Slots: 4})
	version := r.set("due", past).Version
	r.set("later", r.later())
	paused := topic
	paused.Paused, paused.PausedUntil = true, time.UnixMilli(r.later().UnixMilli()).UTC()
	require.Equal(r.t, paused, r.pauseUntil(true, paused.PausedUntil.Add(-time.Millisecond/2)), "the time is rounded up, and all else stays as it is")
	require.Equal(r.t, paused, r.find(r.topic))
	paused.Lease = 2 * topic.Lease
	require.Equal(r.t, paused, r.make(engine.Topic{Slots: 4, Lease: paused.Lease}), "a change of another setting neither resumes nor pauses")
	if primary, ok := r.engine.(engine.Primary); ok {
		claimed, err := primary.Claim(r.ctx, r.topic, "node", []engine.Wanted{{ID: "due", Version: version, At: past}}, long)
		require.NoError(r.t, err)
		require.False(r.t, claimed[0].OK)
	}
	if peeker, ok := r.second.(engine.Peeker); ok && !r.opts.NoPeek {
		_, err := r.second.Set(r.ctx, []engine.Task{r.task("due", past)}) // it knows the topic
		require.NoError(r.t, err)
		r.leaseBatch(engine.Ask{Max: 1})
		r.eventually("a peek knows of the pause", func() bool {
			now := r.now()
			waits, err := peeker.Peek(r.ctx, []engine.Peek{{Topic: r.topic}})
			require.NoError(r.t, err)
			require.LessOrEqual(r.t, waits[0], paused.PausedUntil.Sub(now)+time.Millisecond)
			return waits[0] > long-patient
		})
	}
	r.idle(short)
	require.Equal(r.t, "due", r.afterPause(2*short).ID)
	topic.Lease = paused.Lease
	require.Equal(r.t, topic, r.find(r.topic), "for readers, it has ended, too")
	require.Equal(r.t, topic, r.make(topic))
	require.Equal(r.t, topic, r.pauseUntil(true, r.now()), "an end that is not later is no pause")

	r.set("second", past) // a pause gives way to the next one
	paused = r.pauseUntil(true, r.later())
	require.Equal(r.t, paused, r.find(r.topic))
	require.True(r.t, r.pauseUntil(true, time.Time{}).PausedUntil.IsZero())
	r.idle(short)
	require.Equal(r.t, paused, r.pauseUntil(true, paused.PausedUntil))
	r.idle(short)
	require.Equal(r.t, topic, r.pauseUntil(false, paused.PausedUntil))
	require.Equal(r.t, topic, r.find(r.topic))
	require.Len(r.t, r.lease(1, long), 1)

	r.set("third", past)
	paused.Priority = 7
	made, err := r.second.SetTopic(r.ctx, paused, false, topic)
	require.NoError(r.t, err)
	require.Equal(r.t, paused, made)
	r.idle(short)
	require.Equal(r.t, "third", r.afterPause(short).ID)

	require.NoError(r.t, r.engine.DropTopic(r.ctx, r.topic))
	paused.PausedUntil = r.later().UTC()
	require.Equal(r.t, paused, r.make(paused), "a new one can be paused so")
	require.Equal(r.t, paused, r.find(r.topic))
}

// afterPause pauses the topic for a while, and asks when the engine says so, until it leases a task.
func (r *rig) afterPause(pause time.Duration) engine.Leased {
	r.t.Helper()
	until := time.UnixMilli(r.now().Add(pause).UnixMilli())
	r.pauseUntil(true, until)
	for start := time.Now(); ; {
		require.Less(r.t, time.Since(start), patient)
		batch := r.leaseBatch(engine.Ask{Max: 10, Lease: long})
		if len(batch.Leased) > 0 {
			require.False(r.t, r.now().Before(until))
			require.Len(r.t, batch.Leased, 1)
			return batch.Leased[0]
		}
		require.False(r.t, batch.Next.IsZero())
		require.LessOrEqual(r.t, batch.Next.UnixMilli(), max(until.UnixMilli(), batch.Now.UnixMilli())+short.Milliseconds())
		time.Sleep(max(batch.Next.Sub(batch.Now), time.Millisecond))
	}
}

// testChangedIf checks that a topic changes on condition.
func testChangedIf(r *rig) {
	change := func(e engine.Engine, topic, was engine.Topic) (engine.Topic, error) {
		topic.Name = r.topic
		return e.SetTopic(r.ctx, topic, false, was)
	}
	refused := func(topic, was engine.Topic) {
		r.t.Helper()
		before, err := r.engine.Topics(r.ctx)
		require.NoError(r.t, err)
		_, err = change(r.second, topic, was)
		require.ErrorIs(r.t, err, engine.ErrChanged)
		require.ErrorIs(r.t, err, engine.ErrConflict)
		require.Contains(r.t, err.Error(), r.topic)
		after, err := r.engine.Topics(r.ctx)
		require.NoError(r.t, err)
		named := func(t engine.Topic) bool { return t.Name == r.topic }
		require.Equal(r.t, slices.IndexFunc(before, named) < 0, slices.IndexFunc(after, named) < 0)
		if i := slices.IndexFunc(before, named); i >= 0 {
			require.Equal(r.t, before[i], r.find(r.topic), "nothing is changed")
		}
	}
	refused(engine.Topic{}, engine.Topic{Name: r.topic}.WithDefaults()) // it is missing

	callback := &engine.Callback{Kind: "http", Target: "http://example.org", Header: map[string]string{"A": "b", "C": "d"}, Final: []int{422}}
	first, err := change(r.engine, engine.Topic{Slots: 4, Rate: 0.1, MaxDead: 17, Callback: callback}, engine.Topic{})
	require.NoError(r.t, err)
	require.Equal(r.t, first, r.find(r.topic))
	refused(first, engine.Topic{}) // it is there

	second := first
	second.Retries, second.Slots, second.Paused, second.PausedUntil = 5, 8, true, r.later().UTC()
	for _, was := range []engine.Topic{first, second} {
		kept, err := change(r.engine, second, was)
		require.NoError(r.t, err)
		require.Equal(r.t, second, kept, "the pause changes, too")
		require.Equal(r.t, second, r.find(r.topic))
	}
	refused(second, first) // another may have made the same change
	third := second
	third.Retries = 6
	refused(third, first)
	_, err = change(r.second, first, second)
	require.ErrorIs(r.t, err, engine.ErrConflict)
	require.NotErrorIs(r.t, err, engine.ErrChanged, "there would be fewer slots")
	r.pause(false)
	refused(third, second)
	kept, err := change(r.second, engine.Topic{}, r.find(r.topic))
	require.NoError(r.t, err)
	require.Equal(r.t, engine.Topic{Name: r.topic, Slots: 8}.WithDefaults(), kept)

	// Of simultaneous changes none is lost.
	const callers, rounds = 4, 5
	together(callers, func(i int) {
		e := []engine.Engine{r.engine, r.second}[i%2]
		for n := 0; n < rounds; {
			topics, err := e.Topics(r.ctx)
			if err != nil {
				r.t.Errorf("caller %d: %v", i, err)
				return
			}
			was := topics[slices.IndexFunc(topics, func(t engine.Topic) bool { return t.Name == r.topic })]
			next := was
			next.Retries++
			switch _, err := change(e, next, was); {
			case err == nil:
				n++
			case !isChanged(err):
				r.t.Errorf("caller %d: %v", i, err)
				return
			}
		}
	})
	require.Equal(r.t, kept.Retries+callers*rounds, r.find(r.topic).Retries)

	// One of several makes it.
	require.NoError(r.t, r.engine.DropTopic(r.ctx, r.topic))
	made := make([]error, callers)
	together(callers, func(i int) {
		_, made[i] = change([]engine.Engine{r.engine, r.second}[i%2], engine.Topic{Retries: 3}, engine.Topic{})
	})
	require.Len(r.t, slices.DeleteFunc(made, isChanged), 1)
	require.NoError(r.t, slices.DeleteFunc(made, isChanged)[0])
}

func isChanged(err error) bool { return errors.Is(err, engine.ErrChanged) }
