package fleet

import (
	"context"
	"fmt"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// require.FailNow calls runtime.Goexit, and so may any function of the user.
func TestFunctionsThatEndTheirGoroutineHarmNobody(t *testing.T) {
	bubble(t, func(t *testing.T) {
		const count = 100
		f := &fleetOf{shared: newShared(nodeConfig)}
		cfg := nodeConfig
		cfg.Calls = 2
		var again, calls atomic.Int64
		var mu sync.Mutex
		offline := make(map[string]bool)
		cfg.OnOnline = func(o Online) {
			if o.Again {
				again.Add(1)
				runtime.Goexit()
			}
		}
		cfg.OnOffline = func(_ context.Context, o Offline) error {
			if calls.Add(1) <= 10 {
				runtime.Goexit()
			}
			mu.Lock()
			defer mu.Unlock()
			offline[o.Session] = true
			return nil
		}
		n := f.add(t, "node", cfg)
		var sessions []*Session
		for i := range count {
			s, _ := register(t, n, fmt.Sprint(i))
			sessions = append(sessions, s)
		}
		f.set(func() { f.model.lose(); f.model.server = "b" })
		time.Sleep(time.Minute)
		require.EqualValues(t, count, again.Load())
		for _, s := range sessions {
			require.NoError(t, s.Close())
		}
		time.Sleep(5 * time.Second)
		mu.Lock()
		defer mu.Unlock()
		require.Len(t, offline, count)
		require.EqualValues(t, 10, n.Stats().Untold)
		require.EqualValues(t, count+10, n.Stats().Panics)
	})
}

type endless struct{}

func (endless) Close() error { runtime.Goexit(); return nil }

func TestConnectionsThatEndTheirGoroutineAreDrained(t *testing.T) {
	bubble(t, func(t *testing.T) {
		f := newFleet(t, 1, nodeConfig)
		_, err := f.nodes[0].Register(ctx, endless{}, "a", nil)
		require.NoError(t, err)
		limit, cancel := context.WithTimeout(ctx, time.Minute)
		defer cancel()
		require.NoError(t, f.nodes[0].Drain(limit))
	})
}

func TestASessionEndsWithItsConnectionThoughOnOnlineHasEndedItsGoroutine(t *testing.T) {
	bubble(t, func(t *testing.T) {
		k, _, guarded := newGuarded(t)
		f := &fleetOf{shared: newShared(nodeConfig)}
		cfg := f.diary.config(nodeConfig)
		cfg.Keeper = k
		cfg.OnOnline = func(Online) { runtime.Goexit() }
		n := f.add(t, "node", cfg)
		done := make(chan struct{})
		go func() {
			defer close(done)
			_, _ = n.Register(ctx, guarded, "a", nil)
		}()
		<-done
		require.NoError(t, guarded.Close())
		time.Sleep(time.Second)
		require.Zero(t, n.Len())
		require.Len(t, f.diary.offlines(), 1)
	})
}
