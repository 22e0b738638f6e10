package timeout_test

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/heartwheel-go/heartwheel/timeout"
	"github.com/heartwheel-go/heartwheel/timeout/engine"
	"github.com/heartwheel-go/heartwheel/timeout/memory"
)

const flawLease = time.Second

// served runs the tasks of the topic orders with a lease of flawLease.
type served func(t *testing.T, engine engine.Engine, handler timeout.Handler)

// checkLongHandler has a task run for ten leases while two workers look for work.
func checkLongHandler(t *testing.T, serve served) error {
	engine, err := memory.New(memory.Config{})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, engine.Close()) })
	_, err = engine.SetTopic(t.Context(), timeout.Topic{Name: "orders", Lease: flawLease}, false)
	require.NoError(t, err)
	var mu sync.Mutex
	var running, most, runs int
	work := func(_ context.Context, _ timeout.Task) error {
		mu.Lock()
		running++
		runs++
		most = max(most, running)
		mu.Unlock()
		time.Sleep(10 * flawLease)
		mu.Lock()
		running--
		mu.Unlock()
		return nil
	}
	for range 2 {
		serve(t, engine, work)
	}
	_, err = engine.Set(t.Context(), []timeout.Task{{Topic: "orders", ID: "1"}})
	require.NoError(t, err)
	pass(30 * flawLease)
	mu.Lock()
	defer mu.Unlock()
	if most != 1 || runs != 1 {
		return fmt.Errorf("ran %d times, %d at the same time", runs, most)
	}
	return nil
}

// unextended runs what it leases for as long as it takes, and extends no lease.
func unextended(t *testing.T, e engine.Engine, handler timeout.Handler) {
	var all sync.WaitGroup
	ctx, cancel := context.WithCancel(t.Context())
	all.Go(func() {
		for ; ctx.Err() == nil; time.Sleep(flawLease / 10) {
			batch, err := e.Lease(ctx, engine.Ask{Topic: "orders", Max: 1, Lease: flawLease})
			for _, leased := range batch.Leased {
				all.Go(func() {
					_ = handler(ctx, leased.Task)
					done := []engine.Outcome{{Token: leased.Token, As: timeout.Done}}
					_, _ = e.Lease(context.WithoutCancel(ctx), engine.Ask{Topic: "orders", Settle: done})
				})
			}
			if err != nil {
				return
			}
		}
	})
	t.Cleanup(func() { cancel(); all.Wait() })
}

func byCenter(t *testing.T, e engine.Engine, handler timeout.Handler) {
	r := rigOn(t, e, timeout.Config{})
	require.NoError(t, r.Handle("orders", handler))
}

func TestFlaw14AHandlerThatTakesLongerThanItsLeaseRunsOnce(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		require.ErrorContains(t, checkLongHandler(t, unextended), "at the same time")
	})
	inBubble(t, func(t *testing.T) {
		require.NoError(t, checkLongHandler(t, byCenter))
	})
}
