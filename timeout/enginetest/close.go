package enginetest

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/heartwheel-go/heartwheel/timeout"
)

// calls are all methods of an engine, other than Close.
func (r *rig) calls(engine timeout.Engine, token timeout.Token) map[string]func(ctx context.Context) error {
	return map[string]func(ctx context.Context) error{
		"SetTopic": func(ctx context.Context) error {
			_, err := engine.SetTopic(ctx, timeout.Topic{Name: r.topic}, false)
			return err
		},
		"Pause":     func(ctx context.Context) error { _, err := engine.Pause(ctx, r.topic, true); return err },
		"Topics":    func(ctx context.Context) error { _, err := engine.Topics(ctx); return err },
		"DropTopic": func(ctx context.Context) error { return engine.DropTopic(ctx, r.topic) },
		"Count":     func(ctx context.Context) error { _, err := engine.Count(ctx, r.topic); return err },
		"Set": func(ctx context.Context) error {
			_, err := engine.Set(ctx, []timeout.Task{r.task("1", past)})
			return err
		},
		"Move": func(ctx context.Context) error {
			_, err := engine.Move(ctx, []timeout.Move{{Key: r.key("1"), Due: past}})
			return err
		},
		"Remove": func(ctx context.Context) error { _, err := engine.Remove(ctx, removals(r.keys("1"))); return err },
		"Replay": func(ctx context.Context) error { _, err := engine.Replay(ctx, r.keys("1")); return err },
		"Get":    func(ctx context.Context) error { _, err := engine.Get(ctx, r.keys("1")); return err },
		"List": func(ctx context.Context) error {
			_, err := engine.List(ctx, timeout.Query{Topic: r.topic, State: timeout.Pending})
			return err
		},
		"Expire": func(ctx context.Context) error {
			_, err := engine.Expire(ctx, r.ask(timeout.Ask{Max: 1}))
			return err
		},
		"Extend": func(ctx context.Context) error {
			_, err := engine.Extend(ctx, []timeout.Token{token}, long)
			return err
		},
		"Upkeep": func(ctx context.Context) error { _, err := engine.Upkeep(ctx, 0); return err },
		"Now":    func(ctx context.Context) error { _, err := engine.Now(ctx); return err },
		"Beat": func(ctx context.Context) error {
			_, err := engine.Beat(ctx, timeout.Node{Name: r.topic}, time.Second)
			return err
		},
		"Leave": func(ctx context.Context) error { return engine.Leave(ctx, r.topic) },
	}
}

// testContext has calls made after their context has ended.
func testContext(r *rig) {
	r.make(timeout.Topic{Slots: 2})
	r.set("1", newDue)
	token := r.leased("2", long).Token
	ctx, cancel := context.WithCancel(r.ctx)
	cancel()
	over, cancel := context.WithDeadline(r.ctx, time.Now().Add(-time.Second))
	defer cancel()
	for name, call := range r.calls(r.engine, token) {
		require.ErrorIs(r.t, call(ctx), context.Canceled, name)
		require.ErrorIs(r.t, call(over), context.DeadlineExceeded, name)
	}
	sameTime(r.t, newDue, r.get("1").Due, "Due")
}

// another opens an engine that can be closed, with a rig for it.
func (r *rig) another() *rig {
	open := r.opts.Second
	if open == nil {
		open = r.opts.Open
	}
	engine := open(r.t)
	own := *r
	own.suite = &suite{engine: engine, second: engine, opts: r.opts}
	own.make(timeout.Topic{Slots: 2})
	return &own
}

// testClose closes an engine that has done something.
func testClose(r *rig) {
	own := r.another()
	own.set("1", newDue)
	leased := own.leased("2", long)
	waked := make(chan struct{})
	if waker, ok := own.engine.(timeout.Waker); ok {
		ctx, cancel := context.WithCancel(r.ctx)
		go func() {
			_ = waker.Wake(ctx, func(string) {}) // whatever it says: the engine may be closed
			close(waked)
		}()
		defer func() {
			cancel()
			<-waked
		}()
	}
	closed := make(chan error, 2)
	for range 2 {
		go func() { closed <- own.engine.Close() }()
	}
	for range 2 {
		require.NoError(r.t, <-closed)
	}
	require.NoError(r.t, own.engine.Close(), "Close is idempotent")
	for name, call := range r.calls(own.engine, leased.Token) {
		require.ErrorIs(r.t, call(r.ctx), timeout.ErrClosed, name)
	}
	if r.opts.Second != nil { // what it has done stays, and others go on
		require.Equal(r.t, timeout.Pending, r.get("1").State)
		require.Equal(r.t, []bool{true}, r.settle(timeout.Outcome{Token: leased.Token, As: timeout.Done}))
	}
	r.t.Run("WhileInUse", func(t *testing.T) {
		inner := *r
		inner.t, inner.topic = t, unique("test")
		inner.closeWhileInUse()
	})
}

// closeWhileInUse has every call end, with an error or without, when the engine is closed.
func (r *rig) closeWhileInUse() {
	own := r.another()
	ended := make(chan string)
	calls := own.calls(own.engine, own.leased("2", long).Token)
	for _, name := range []string{"DropTopic", "Beat", "Leave"} { // others are in the way of other tests
		delete(calls, name)
	}
	for name, call := range calls {
		go func() {
			for start := time.Now(); time.Since(start) < patient; {
				if errors.Is(call(r.ctx), timeout.ErrClosed) {
					ended <- name
					return
				}
			}
			ended <- name + " works after Close"
		}()
	}
	time.Sleep(20 * time.Millisecond)
	require.NoError(r.t, own.engine.Close())
	for range calls {
		require.Contains(r.t, calls, <-ended)
	}
	_ = r.engine.DropTopic(r.ctx, r.topic)
}
