package memory

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/heartwheel-go/heartwheel/timeout/engine"
)

// A task was due, and then the clock was stepped back: nobody needs to ask for it again and again until it is
// due once more.
func TestATaskFromBeforeTheClockWasSteppedBackIsWaitedFor(t *testing.T) {
	e, err := New(Config{})
	require.NoError(t, err)
	defer e.Close()
	_, err = e.SetTopic(t.Context(), engine.Topic{Name: "orders", Slots: 1}, true)
	require.NoError(t, err)
	set := func(id string) {
		_, err := e.Set(t.Context(), []engine.Task{{Topic: "orders", ID: id}})
		require.NoError(t, err)
	}
	set("1")
	e.mu.Lock()
	en := e.topics.Get("orders").slots[0][0]
	en.at += time.Hour.Milliseconds()
	e.mu.Unlock()

	ask := engine.Ask{Topic: "orders", Max: 1, Lease: time.Minute}
	batch, err := e.Lease(t.Context(), ask)
	require.NoError(t, err)
	require.Empty(t, batch.Leased)
	require.Equal(t, time.UnixMilli(en.at), batch.Next)

	set("2")
	set("3")
	batch, err = e.Lease(t.Context(), ask)
	require.NoError(t, err)
	require.Len(t, batch.Leased, 1)
	require.Equal(t, batch.Now, batch.Next, "one is due")
}

// Action times are moments. Timers wait for lengths of time.
func TestATaskIsDueAfterTheClockWasSteppedForward(t *testing.T) {
	e, err := New(Config{})
	require.NoError(t, err)
	defer e.Close()
	_, err = e.SetTopic(t.Context(), engine.Topic{Name: "orders", Slots: 1}, true)
	require.NoError(t, err)
	for id, after := range map[string]time.Duration{"near": time.Hour, "far": 3 * time.Hour} {
		_, err := e.Set(t.Context(), []engine.Task{{Topic: "orders", ID: id, After: after}})
		require.NoError(t, err)
	}
	step := (2 * time.Hour).Milliseconds()
	e.mu.Lock()
	for _, en := range e.topics.Get("orders").tasks.All() {
		en.at -= step
	}
	e.ahead -= step
	e.mu.Unlock()

	due := func() (ids []string) {
		batch, err := e.Lease(t.Context(), engine.Ask{Topic: "orders", Max: 10, Lease: time.Hour})
		require.NoError(t, err)
		for _, leased := range batch.Leased {
			ids = append(ids, leased.ID)
		}
		return ids
	}
	_, err = e.Maintain(t.Context())
	require.NoError(t, err)
	require.Equal(t, []string{"near"}, due())

	e.mu.Lock() // and a step back, which is no step forward later
	e.ahead += 5 * step
	e.mu.Unlock()
	_, err = e.Maintain(t.Context())
	require.NoError(t, err)
	require.InDelta(t, e.clockAhead(time.Now()), e.ahead, maxStep)
	require.Empty(t, due())
}

// A lease is a length of time, and its handler runs. It may be made before the step, or after it and before the
// next Maintain.
func TestALeaseLastsAsLongAfterAStep(t *testing.T) {
	for _, step := range []time.Duration{2 * time.Hour, -2 * time.Hour} {
		for _, when := range []string{"leased before", "extended after", "leased after", "ended before"} {
			t.Run(fmt.Sprint("step=", step, "/", when), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) { testStep(t, step.Milliseconds(), when) })
			})
		}
	}
}

func testStep(t *testing.T, step int64, when string) {
	e, err := New(Config{})
	require.NoError(t, err)
	defer e.Close()
	_, err = e.SetTopic(t.Context(), engine.Topic{Name: "orders", Slots: 1}, true)
	require.NoError(t, err)
	_, err = e.Set(t.Context(), []engine.Task{{Topic: "orders", ID: "x"}})
	require.NoError(t, err)
	leased := func(lease time.Duration) []engine.Leased {
		batch, err := e.Lease(t.Context(), engine.Ask{Topic: "orders", Node: "n", Max: 1, Lease: lease})
		require.NoError(t, err)
		return batch.Leased
	}
	var before []engine.Leased
	switch when {
	case "leased before", "extended after":
		before = leased(time.Hour)
	case "ended before":
		require.Len(t, leased(time.Millisecond), 1)
		time.Sleep(time.Second)
	}
	// As if all of this was by a clock that is stepped now.
	e.mu.Lock()
	en := e.topics.Get("orders").tasks.Get("x")
	en.at -= step
	e.ahead -= step
	e.mu.Unlock()
	switch when {
	case "extended after":
		held, err := e.Extend(t.Context(), []engine.Token{before[0].Token}, time.Hour)
		require.NoError(t, err)
		require.Equal(t, []bool{true}, held)
	case "leased after":
		en.at = 1 // it is due by either clock
		require.Len(t, leased(time.Hour), 1)
	}
	if when != "ended before" {
		require.Empty(t, leased(time.Hour))
	}
	_, err = e.Maintain(t.Context())
	require.NoError(t, err)
	if when == "ended before" {
		require.Len(t, leased(time.Hour), 1)
		return
	}
	require.Empty(t, leased(time.Hour))
	got, err := e.Get(t.Context(), []engine.Key{{Topic: "orders", ID: "x"}})
	require.NoError(t, err)
	require.Equal(t, time.Now().Add(time.Hour).UnixMilli(), got[0].Until.UnixMilli())
}

// The system may stop the process anywhere, also between its look at the clock and the lease.
func TestAPauseWhileALeaseIsMadeDoesNotChangeItsEnd(t *testing.T) {
	e, err := New(Config{})
	require.NoError(t, err)
	defer e.Close()
	_, err = e.SetTopic(t.Context(), engine.Topic{Name: "orders", Slots: 1}, true)
	require.NoError(t, err)
	_, err = e.Set(t.Context(), []engine.Task{{Topic: "orders", ID: "x"}})
	require.NoError(t, err)
	batch, err := e.Lease(t.Context(), engine.Ask{Topic: "orders", Node: "n", Max: 1, Lease: time.Hour})
	require.NoError(t, err)
	require.Len(t, batch.Leased, 1)

	e.mu.Lock()
	defer e.mu.Unlock()
	en := e.topics.Get("orders").tasks.Get("x")
	looked := time.Now().Add(-time.Minute)
	e.hold(en, looked, time.Hour)
	end := looked.Add(time.Hour).UnixMilli()
	require.Equal(t, end, en.at)
	e.ahead -= 2 * maxStep // as if the clock had been stepped before all this
	e.follow(time.Now())
	require.Equal(t, end, en.at)
}
