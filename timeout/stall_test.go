package timeout_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/heartwheel-go/heartwheel/timeout"
	"github.com/heartwheel-go/heartwheel/timeout/engine"
	"github.com/heartwheel-go/heartwheel/timeout/memory"
)

// moody is an engine that may fail, or answer late.
type moody struct {
	*memory.Engine
	fails, slow atomic.Bool
}

func (e *moody) mood() error {
	if e.slow.Load() {
		time.Sleep(time.Duration(rand.IntN(400)) * time.Millisecond)
	}
	if e.fails.Load() && rand.IntN(2) == 0 {
		return errRefused
	}
	return nil
}

func (e *moody) Lease(ctx context.Context, ask engine.Ask) (engine.Batch, error) {
	if err := e.mood(); err != nil {
		return engine.Batch{}, err
	}
	return e.Engine.Lease(ctx, ask)
}

func (e *moody) Extend(ctx context.Context, tokens []engine.Token, lease time.Duration) ([]bool, error) {
	if err := e.mood(); err != nil {
		return nil, err
	}
	return e.Engine.Extend(ctx, tokens, lease)
}

func (e *moody) Topics(ctx context.Context) ([]engine.Topic, error) {
	if err := e.mood(); err != nil {
		return nil, err
	}
	return e.Engine.Topics(ctx)
}

func (e *moody) Heartbeat(ctx context.Context, node engine.Node, ttl time.Duration) (engine.View, error) {
	if err := e.mood(); err != nil {
		return engine.View{}, err
	}
	return e.Engine.Heartbeat(ctx, node, ttl)
}

// Whatever happens to a topic, its due tasks run soon after all is well again, or as soon as there is a place.
func TestNoTopicStalls(t *testing.T) {
	const seeds = 30
	for name, trouble := range map[string]func(*testing.T, *rand.Rand){"troubled": troubled, "hanging calls": hangingCalls, "long handlers": longHandlers} {
		for range seeds {
			seed := rand.Uint64()
			t.Run(fmt.Sprint(name, " ", seed), func(t *testing.T) {
				inBubble(t, func(t *testing.T) { trouble(t, rand.New(rand.NewPCG(seed, 0))) }) //nolint:gosec // no secret
			})
		}
	}
}

// troubled lets a topic of one or two nodes meet all kinds of trouble, in bursts with quiet times between.
func troubled(t *testing.T, rng *rand.Rand) {
	pick := func(values ...int) int { return values[rng.IntN(len(values))] }
	store, err := memory.New(memory.Config{})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, store.Close()) })
	e := &moody{Engine: store}
	lease := time.Duration(pick(1, 5, 30)) * time.Second
	settings := func() timeout.Topic {
		return timeout.Topic{
			Name: "orders", Slots: pick(1, 8), Concurrency: pick(1, 2, 16), Lease: lease, Timeout: 2 * lease, Rate: float64(pick(0, 0, 20)),
			GlobalConcurrency: pick(0, 0, 8), Backoff: time.Second, BackoffMax: 3 * time.Second, Retries: 1000,
		}
	}
	_, err = e.SetTopic(t.Context(), settings(), false)
	require.NoError(t, err)
	var calm atomic.Bool
	var mu sync.Mutex
	ran := make(map[string]time.Time)
	handle := func(ctx context.Context, task timeout.Task) error {
		mu.Lock()
		ran[task.ID] = time.Now()
		mood := rng.IntN(12)
		hang := time.Duration(rng.IntN(int(6 * lease)))
		mu.Unlock()
		switch {
		case calm.Load():
			return nil
		case mood == 0:
			time.Sleep(hang)
		case mood == 1:
			<-ctx.Done()
			return context.Cause(ctx)
		case mood == 2:
			panic("moody")
		case mood == 3:
			return timeout.Uncounted(errors.New("later"))
		case mood == 4:
			return errors.New("no")
		case mood == 5:
			return timeout.ErrAccepted
		}
		return nil
	}
	nodes := 1 + rng.IntN(2)
	var rigs []*rig
	for i := range nodes {
		r := rigOn(t, e, timeout.Config{Node: fmt.Sprint("node-", i), Concurrency: pick(0, 0, 3), Logger: slog.New(slog.DiscardHandler)})
		require.NoError(t, r.Handle("orders", handle))
		rigs = append(rigs, r)
	}
	locked := func(do func()) { mu.Lock(); defer mu.Unlock(); do() }
	some := func() (r *rig) {
		locked(func() { r = rigs[rng.IntN(nodes)] })
		return r
	}
	for range 40 {
		var act, n int
		var ids []timeout.Key
		var wait time.Duration
		var topic timeout.Topic
		locked(func() {
			act, n, topic = rng.IntN(16), 1+rng.IntN(20), settings()
			for range n {
				ids = append(ids, key(fmt.Sprint(rng.IntN(30))))
			}
			wait = time.Duration(rng.IntN(int(3 * lease)))
		})
		switch act {
		case 0, 1, 2, 3, 4:
			for _, id := range ids {
				_, _ = some().Set(t.Context(), timeout.Task{Topic: "orders", ID: id.ID})
			}
		case 5:
			_, _ = some().MoveAfter(t.Context(), ids[0], time.Second)
		case 6:
			_, _ = some().Remove(t.Context(), ids[0])
		case 7:
			require.NoError(t, some().Pause(t.Context(), "orders"))
		case 8:
			require.NoError(t, some().Resume(t.Context(), "orders"))
		case 9:
			topic.Slots = 0
			_, _ = some().SetTopic(t.Context(), topic)
		case 10:
			e.fails.Store(n%2 == 0)
		case 11:
			e.slow.Store(n%2 == 0)
		case 12:
			pass(2 * lease)
			for range 1 + n%3 {
				_, _ = some().Set(t.Context(), timeout.Task{Topic: "orders", ID: ids[0].ID})
			}
		default:
			pass(wait)
		}
	}
	calm.Store(true)
	e.fails.Store(false)
	e.slow.Store(false)
	require.NoError(t, rigs[0].Resume(t.Context(), "orders"))
	pass(20*lease + time.Minute)
	counts, err := rigs[0].Count(t.Context(), "orders")
	require.NoError(t, err)
	require.Zero(t, counts.Due, "%+v", counts)
	require.Zero(t, counts.Running, "%+v", counts)
	for i := range 20 {
		_, err := rigs[i%nodes].Set(t.Context(), timeout.Task{Topic: "orders", ID: fmt.Sprint("last-", i)})
		require.NoError(t, err)
	}
	begun := time.Now()
	pass(3 * time.Second)
	mu.Lock()
	defer mu.Unlock()
	for i := range 20 {
		require.False(t, ran[fmt.Sprint("last-", i)].IsZero(), "set at %v", begun)
	}
}

// hangingCalls lets some calls hang for very long: tasks with other targets go on, whoever sets them.
func hangingCalls(t *testing.T, rng *rand.Rand) {
	pick := func(values ...int) int { return values[rng.IntN(len(values))] }
	e, err := memory.New(memory.Config{})
	require.NoError(t, err)
	t.Cleanup(func() { _ = e.Close() })
	caller := &targets{calls: map[string]int{}}
	lease := time.Duration(pick(1, 5, 30)) * time.Second
	settings := func() timeout.Topic {
		topic := timeout.Topic{Name: "orders", Concurrency: pick(16, 32), Lease: lease, Timeout: 10 * time.Hour, Backoff: time.Second, BackoffMax: 3 * time.Second, Retries: 1000, Rate: float64(pick(0, 0, 20))}
		if rng.IntN(2) == 0 {
			topic.Callback = &timeout.Callback{Kind: "fake", Target: []string{"good-topic", "dead"}[rng.IntN(2)]}
		}
		return topic
	}
	_, err = e.SetTopic(t.Context(), settings(), false)
	require.NoError(t, err)
	r := rigOn(t, e, timeout.Config{All: true, Node: "a", Concurrency: pick(0, 0, 24), Callers: map[string]timeout.Caller{"fake": caller}})
	setter, err := timeout.New(e, timeout.Config{Node: "setter", Logger: slog.New(slog.DiscardHandler)})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, setter.Close()) })
	handler := func(_ context.Context, task timeout.Task) error {
		if task.Attempts%2 == 1 {
			return errors.New("no")
		}
		return nil
	}
	stuck := 0
	good := 0
	for step := range 60 {
		c := r.Center
		if rng.IntN(2) == 0 {
			c = setter
		}
		id := fmt.Sprint(rng.IntN(20))
		switch act := rng.IntN(12); act {
		case 0, 1:
			_, err = c.Set(t.Context(), timeout.Task{Topic: "orders", ID: id, Callback: &timeout.Callback{Kind: "fake", Target: "good"}})
		case 2, 3:
			_, err = c.Set(t.Context(), timeout.Task{Topic: "orders", ID: id, Callback: &timeout.Callback{Kind: "fake", Target: "dead"}})
		case 4:
			if stuck < 5 {
				stuck++
				_, err = c.Set(t.Context(), timeout.Task{Topic: "orders", ID: fmt.Sprint("stuck-", stuck), Callback: &timeout.Callback{Kind: "fake", Target: fmt.Sprint("stuck-", rng.IntN(2))}})
			}
		case 5, 6:
			_, err = c.Set(t.Context(), timeout.Task{Topic: "orders", ID: id})
		case 7:
			if rng.IntN(2) == 0 {
				err = r.Handle("orders", handler)
			} else {
				err = r.Handle("orders", nil)
			}
		case 8:
			topic := settings()
			_, err = r.SetTopic(t.Context(), topic)
		case 9:
			r.CloseCircuit("fake dead")
		case 10:
			_, err = c.Remove(t.Context(), key(id))
		default:
			d := time.Duration(rng.Int64N(int64(10 * time.Minute)))
			if rng.IntN(2) == 0 {
				d = time.Duration(rng.Int64N(int64(2 * time.Second)))
			}
			pass(d)
		}
		if errors.Is(err, timeout.ErrConflict) || errors.Is(err, timeout.ErrArgument) {
			err = nil
		}
		require.NoError(t, err)
		if step%15 == 14 {
			good++
			target := fmt.Sprint("good-check-", good)
			_, err := setter.Set(t.Context(), timeout.Task{Topic: "orders", ID: target, Callback: &timeout.Callback{Kind: "fake", Target: target}})
			require.NoError(t, err)
			pass(45 * time.Second)
			require.Equal(t, 1, caller.count(target), "%+v %v", r.stats(), r.OpenCircuits())
		}
	}
}

// longHandlers lets some handlers run for very long while limits change and a node ends: a task runs soon if a place is free.
func longHandlers(t *testing.T, rng *rand.Rand) {
	pick := func(values ...int) int { return values[rng.IntN(len(values))] }
	e, err := memory.New(memory.Config{})
	require.NoError(t, err)
	t.Cleanup(func() { _ = e.Close() })
	lease := time.Duration(pick(1, 5, 30)) * time.Second
	global := rng.IntN(3) == 0
	settings := func(n int) timeout.Topic {
		topic := timeout.Topic{Name: "orders", Slots: 4, Concurrency: n, Lease: lease, Timeout: 10 * time.Hour, Rate: float64(pick(0, 0, 20)), Retries: 1000, Backoff: time.Second, BackoffMax: time.Second}
		if global {
			topic.GlobalConcurrency = 4 * n
		}
		return topic
	}
	_, err = e.SetTopic(t.Context(), settings(4), false)
	require.NoError(t, err)
	var mu sync.Mutex
	ran := map[string]bool{}
	handler := func(ctx context.Context, task timeout.Task) error {
		mu.Lock()
		ran[task.ID] = true
		mu.Unlock()
		if strings.HasPrefix(task.ID, "long") {
			<-ctx.Done()
			return context.Cause(ctx)
		}
		return nil
	}
	nodes := pick(1, 1, 2)
	var rigs []*rig
	for i := range nodes {
		r := rigOn(t, e, timeout.Config{Node: fmt.Sprint("node-", i), Concurrency: pick(0, 0, 20)})
		require.NoError(t, r.Handle("orders", handler))
		rigs = append(rigs, r)
	}
	r := rigs[0]
	setter, err := timeout.New(e, timeout.Config{Node: "setter", Logger: slog.New(slog.DiscardHandler)})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, setter.Close()) })
	pass(30 * time.Second)
	stopped := false
	for step := range 40 {
		id := fmt.Sprint(rng.IntN(20))
		c := r.Center
		if rng.IntN(2) == 0 {
			c = setter
		}
		switch rng.IntN(8) {
		case 0, 1:
			_, err = c.Set(t.Context(), timeout.Task{Topic: "orders", ID: id})
		case 2:
			l := fmt.Sprint("long-", rng.IntN(6))
			_, err = c.Set(t.Context(), timeout.Task{Topic: "orders", ID: l})
		case 3:
			l := fmt.Sprint("long-", rng.IntN(6))
			_, err = c.Remove(t.Context(), key(l))
		case 4:
			n := pick(1, 2, 4, 8)
			_, err = c.SetTopic(t.Context(), settings(n))
		case 5:
			if nodes == 2 && !stopped && step > 20 {
				stopped = true
				require.NoError(t, rigs[1].stop())
			}
		default:
			d := time.Duration(rng.Int64N(int64(5 * lease)))
			if rng.IntN(2) == 0 {
				d = time.Duration(rng.Int64N(int64(time.Second)))
			}
			pass(d)
		}
		require.NoError(t, err)
	}
	_, err = setter.SetTopic(t.Context(), settings(8))
	require.NoError(t, err)
	_, err = setter.Set(t.Context(), timeout.Task{Topic: "orders", ID: "check"})
	require.NoError(t, err)
	pass(2 * time.Minute)
	mu.Lock()
	defer mu.Unlock()
	require.True(t, ran["check"], "%+v", r.stats())
}
