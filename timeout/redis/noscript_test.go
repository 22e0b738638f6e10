package redis_test

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/heartwheel-go/heartwheel/internal/testserver"
	"github.com/heartwheel-go/heartwheel/timeout/engine"
	"github.com/heartwheel-go/heartwheel/timeout/redis"
)

// useAll calls all that runs a script, for tasks of its own.
func useAll(ctx context.Context, e *redis.Engine, name string) error {
	key := engine.Key{Topic: name, ID: "1"}
	var leased []engine.Leased
	for what, call := range []func() error{
		func() error {
			_, err := e.SetTopic(ctx, engine.Topic{Name: name, Slots: 4, Retain: time.Hour}, false)
			return err
		},
		func() error {
			_, err := e.Set(ctx, []engine.Task{{Topic: name, ID: "1", After: time.Hour}})
			return err
		},
		func() error { _, err := e.Get(ctx, []engine.Key{key}); return err },
		func() error { _, err := e.Move(ctx, []engine.Move{{Key: key}}); return err },
		func() error { _, err := e.Peek(ctx, []engine.Peek{{Topic: name}}); return err },
		func() error {
			batch, err := e.Lease(ctx, engine.Ask{Topic: name, Node: "n", Max: 1, Lease: time.Minute})
			leased = batch.Leased
			return err
		},
		func() error {
			if len(leased) != 1 {
				return fmt.Errorf("%d tasks are leased", len(leased))
			}
			_, err := e.Extend(ctx, []engine.Token{leased[0].Token}, time.Minute)
			return err
		},
		func() error {
			_, err := e.Lease(ctx, engine.Ask{Topic: name, Settle: []engine.Outcome{{Token: leased[0].Token, As: engine.Dead}}})
			return err
		},
		func() error { _, err := e.Count(ctx, name); return err },
		func() error { _, err := e.List(ctx, engine.Query{Topic: name, State: engine.Dead}); return err },
		func() error { _, err := e.Replay(ctx, []engine.Key{key}); return err },
		func() error { _, err := e.Remove(ctx, []engine.Removal{{Key: key}}); return err },
		func() error { _, err := e.Pause(ctx, name, true, time.Time{}); return err },
		func() error { _, err := e.SetTopic(ctx, engine.Topic{Name: name, Slots: 8}, false); return err },
		func() error { _, err := e.Maintain(ctx); return err },
		func() error { _, err := e.Heartbeat(ctx, engine.Node{Name: name}, time.Minute); return err },
		func() error { return e.Leave(ctx, name) },
		func() error { return e.DropTopic(ctx, name) },
	} {
		if err := call(); err != nil {
			return fmt.Errorf("call %d: %w", what, err)
		}
	}
	return nil
}

// Another server in place of the old one, such as a replica or a restored one, knows no script.
func TestAServerThatForgetsItsScriptsAllTheTimeRunsThemAll(t *testing.T) {
	s := testserver.Redis(t)
	e := openEngine(t, server{s}, redis.Config{})
	client := server{s}.client(t)
	ctx, end := context.WithCancel(t.Context())
	var flushing sync.WaitGroup
	flushing.Go(func() {
		for ctx.Err() == nil {
			_ = client.ScriptFlush(ctx).Err()
		}
	})
	defer flushing.Wait()
	defer end()
	var all sync.WaitGroup
	errs := make([]error, 4)
	for i := range errs {
		all.Go(func() {
			for n := 0; n < 5 && errs[i] == nil; n++ {
				errs[i] = useAll(t.Context(), e, fmt.Sprint("topic", i))
			}
		})
	}
	all.Wait()
	for _, err := range errs {
		require.NoError(t, err)
	}
}

func TestAnEmptyServerInPlaceOfTheOldOneRunsAllScripts(t *testing.T) {
	s := testserver.Redis(t)
	e := openEngine(t, server{s}, redis.Config{})
	require.NoError(t, useAll(t.Context(), e, "before"))
	s.Kill(t)
	s.Restart(t)
	require.NoError(t, server{s}.client(t).FlushAll(t.Context()).Err())
	require.Eventually(t, func() bool { return e.Ready(t.Context()) == nil }, time.Minute, 10*time.Millisecond)
	require.NoError(t, useAll(t.Context(), e, "after"))
}
