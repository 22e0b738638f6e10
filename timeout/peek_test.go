package timeout_test

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/heartwheel-go/heartwheel/timeout"
	"github.com/heartwheel-go/heartwheel/timeout/engine"
)

// peeker is a teller with a Peek in the hands of the test. It counts the peeks.
type peeker struct {
	*teller
	peeks  atomic.Int64
	answer atomic.Value // of type func() (time.Duration, error), for each topic
}

func newPeeker(t *testing.T) *peeker {
	e := &peeker{teller: newTeller(t)}
	e.says(engine.NothingDue)
	return e
}

func (e *peeker) says(wait time.Duration) {
	e.answer.Store(func() (time.Duration, error) { return wait, nil })
}

func (e *peeker) Peek(_ context.Context, peeks []engine.Peek) ([]time.Duration, error) {
	e.peeks.Add(1)
	wait, err := e.answer.Load().(func() (time.Duration, error))()
	waits := make([]time.Duration, len(peeks))
	for i := range waits {
		waits[i] = wait
	}
	return waits, err
}

// idling is serving with a peeker that tells, and with nothing to do for a while.
func idling(t *testing.T) (e *peeker, setter *rig, ran *record) {
	e = newPeeker(t)
	setter, ran = serving(t, e)
	e.tell("")
	pass(30 * time.Second)
	return e, setter, ran
}

func TestOnePeekDoesForAllIdleTopics(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		const topics = 16
		e := newPeeker(t)
		r := rigOn(t, e, timeout.Config{})
		for i := range topics {
			require.NoError(t, r.Handle(fmt.Sprint("topic-", i), func(context.Context, timeout.Task) error { return nil }))
		}
		for _, tells := range []bool{false, true} {
			poll := 250 * time.Millisecond
			if tells {
				e.tell("")
				poll = 5 * time.Second
			}
			pass(20 * time.Second)
			before := e.peeks.Load()
			asked := e.asked(10 * time.Minute)
			most := int64(10 * time.Minute / poll)
			require.InDelta(t, most, e.peeks.Load()-before, float64(most)/5)
			require.LessOrEqual(t, asked, int64(5*topics))
			require.GreaterOrEqual(t, asked, int64(2*topics), "each worker looks by itself at least every five minutes")
		}
	})
}

// A peek leads to a look at what is due, now or soon.
func TestWhatAPeekFindsIsRun(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		e, setter, ran := idling(t)
		setter.set("due", 0)
		e.says(0)
		pass(5 * time.Second)
		require.Equal(t, []string{"due"}, ran.all())

		e.says(engine.NothingDue)
		pass(5 * time.Second)
		asks := e.asks.Load()
		e.says(2 * time.Minute)
		pass(5 * time.Second)
		e.says(engine.NothingDue)
		pass(time.Minute)
		require.Equal(t, asks, e.asks.Load(), "a time after the next peek changes nothing")
		e.says(300 * time.Millisecond)
		pass(5 * time.Second)
		require.Greater(t, e.asks.Load(), asks, "at that time")
	})
}

// Without a peek, each worker looks by itself as often as ever.
func TestAPeekThatFailsOrHangsDelaysNothing(t *testing.T) {
	for name, answer := range map[string]func() (time.Duration, error){
		"fails": func() (time.Duration, error) { return 0, errors.New("away") },
		"hangs": func() (time.Duration, error) { time.Sleep(10 * time.Minute); return engine.NothingDue, nil },
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T) {
				e, setter, ran := idling(t)
				e.answer.Store(answer)
				for n := range 10 {
					pass(5 * time.Second)
					setter.set(fmt.Sprint("untold-", n), 0)
					pass(5100 * time.Millisecond)
					require.Len(t, ran.all(), n+1)
				}
				e.says(engine.NothingDue)
				pass(20 * time.Minute) // the hanging one ends
			})
		})
	}
}

// A task that the engine tells of during a peek is run at once, whatever the peek says.
func TestAPeekUnderWayHoldsUpNothing(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		e, setter, ran := idling(t)
		peeks := e.peeks.Load()
		e.answer.Store(func() (time.Duration, error) { time.Sleep(3 * time.Second); return engine.NothingDue, nil })
		for e.peeks.Load() == peeks {
			pass(time.Millisecond)
		}
		setter.set("told", 0)
		e.tell("orders")
		pass(time.Millisecond)
		require.Equal(t, []string{"told"}, ran.all())
	})
}

func TestOnlyIdleTopicsAreInAPeek(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		e, setter, _ := idling(t)
		err := setter.Pause(t.Context(), "orders")
		require.NoError(t, err)
		pass(30 * time.Second)
		peeks := e.peeks.Load()
		pass(time.Minute)
		require.Equal(t, peeks, e.peeks.Load(), "paused")
		err = setter.Resume(t.Context(), "orders")
		require.NoError(t, err)
		pass(time.Minute)
		require.Greater(t, e.peeks.Load(), peeks)
	})
}
