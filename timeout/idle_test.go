package timeout_test

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/heartwheel-go/heartwheel/timeout"
	"github.com/heartwheel-go/heartwheel/timeout/engine"
	"github.com/heartwheel-go/heartwheel/timeout/memory"
)

// teller is an engine with a Wake in the hands of the test. It counts the calls of Lease.
type teller struct {
	engine.Engine
	asks   atomic.Int64
	paused atomic.Bool // Lease waits for resume before it answers
	resume chan struct{}
	ends   chan error // for Wake to return

	mu    sync.Mutex
	wakes []func(topic string)
	ended []func(key timeout.Key)
}

func newTeller(t *testing.T) *teller {
	engine, err := memory.New(memory.Config{})
	require.NoError(t, err)
	t.Cleanup(func() { _ = engine.Close() })
	return &teller{Engine: engine, resume: make(chan struct{}), ends: make(chan error)}
}

func (e *teller) Wake(ctx context.Context, wake func(topic string), ended func(key timeout.Key)) error {
	e.mu.Lock()
	e.wakes, e.ended = append(e.wakes, wake), append(e.ended, ended)
	e.mu.Unlock()
	select {
	case err := <-e.ends:
		return err
	case <-ctx.Done():
		return nil
	}
}

func (e *teller) tell(topic string) {
	e.mu.Lock()
	wakes := slices.Clone(e.wakes)
	e.mu.Unlock()
	for _, wake := range wakes {
		wake(topic)
	}
}

// tellEnded tells that leases have ended.
func (e *teller) tellEnded(keys ...timeout.Key) {
	e.mu.Lock()
	listeners := slices.Clone(e.ended)
	e.mu.Unlock()
	for _, ended := range listeners {
		for _, key := range keys {
			ended(key)
		}
	}
}

// Lease may wait with its answer.
func (e *teller) Lease(ctx context.Context, ask engine.Ask) (engine.Batch, error) {
	e.asks.Add(1)
	batch, err := e.Engine.Lease(ctx, ask)
	if ask.Max > 0 && e.paused.CompareAndSwap(true, false) {
		<-e.resume
	}
	return batch, err
}

// asked counts the calls of Lease in some time.
func (e *teller) asked(d time.Duration) int64 {
	before := e.asks.Load()
	pass(d)
	return e.asks.Load() - before
}

// serving returns a record of the handler of one node, and another node to set tasks with.
func serving(t *testing.T, e engine.Engine) (setter *rig, ran *record) {
	r := rigOn(t, e, timeout.Config{Topic: timeout.Topic{Slots: 1}})
	ran = new(record)
	require.NoError(t, r.Handle("orders", func(_ context.Context, task timeout.Task) error {
		ran.add(task.ID)
		return nil
	}))
	setter = rigOn(t, e, timeout.Config{Node: "setter"})
	pass(11 * time.Second)
	require.Len(t, r.stats().Slots, 1)
	return setter, ran
}

func TestIdleTopicsAreLookedAtNowAndThen(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		const topics = 64
		engine := newTeller(t)
		r := rigOn(t, engine, timeout.Config{})
		for i := range topics {
			require.NoError(t, r.Handle(fmt.Sprint("topic-", i), func(context.Context, timeout.Task) error { return nil }))
		}
		pass(20 * time.Second)
		require.InDelta(t, topics*60*4, engine.asked(time.Minute), topics*60, "nobody tells: every Poll")
		engine.tell("")
		pass(10 * time.Second)
		asked := engine.asked(time.Minute)
		require.LessOrEqual(t, asked, int64(topics*60/4))
		require.GreaterOrEqual(t, asked, int64(topics*60/5-topics))
		engine.ends <- nil
		require.InDelta(t, topics*60*4, engine.asked(time.Minute), topics*60, "nobody tells any more")
	})
}

// What the engine does not tell costs the net below, and nothing else.
func TestWhatIsNotToldIsFoundAllTheSame(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		engine := newTeller(t)
		setter, ran := serving(t, engine)
		engine.tell("")
		pass(time.Millisecond)
		setter.set("told", 0)
		engine.tell("orders")
		pass(time.Millisecond)
		require.Equal(t, []string{"told"}, ran.all())
		setter.set("untold", 0)
		pass(time.Second)
		require.Len(t, ran.all(), 1)
		pass(4100 * time.Millisecond)
		require.Len(t, ran.all(), 2)
		setter.set("before it hears again", 0)
		engine.tell("")
		pass(time.Millisecond)
		require.Len(t, ran.all(), 3, "all topics are looked at then")
	})
}

// While the engine answers, it may tell of a newer task.
func TestWhatIsToldWhileTheEngineAnswersIsNotForgotten(t *testing.T) {
	for _, told := range []string{"orders", ""} {
		inBubble(t, func(t *testing.T) {
			engine := newTeller(t)
			setter, ran := serving(t, engine)
			engine.tell("")
			pass(time.Millisecond)
			engine.paused.Store(true)
			engine.tell("orders") // it is asked, and has nothing
			pass(time.Millisecond)
			require.False(t, engine.paused.Load())
			setter.set("meanwhile", 0)
			engine.tell(told)
			engine.resume <- struct{}{}
			pass(time.Millisecond)
			require.Equal(t, []string{"meanwhile"}, ran.all(), "and nobody waits for the next look")
		})
	}
}
