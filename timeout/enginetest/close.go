package enginetest

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/heartwheel-go/heartwheel/timeout/engine"
)

// calls are all methods of an engine, other than Close.
func (r *rig) calls(e engine.Engine, token engine.Token) map[string]func(ctx context.Context) error {
	return map[string]func(ctx context.Context) error{
		"SetTopic": func(ctx context.Context) error {
			_, err := e.SetTopic(ctx, engine.Topic{Name: r.topic}, false)
			return err
		},
		"Pause":     func(ctx context.Context) error { _, err := e.Pause(ctx, r.topic, true, time.Time{}); return err },
		"Topics":    func(ctx context.Context) error { _, err := e.Topics(ctx); return err },
		"DropTopic": func(ctx context.Context) error { return e.DropTopic(ctx, r.topic) },
		"Count":     func(ctx context.Context) error { _, err := e.Count(ctx, r.topic); return err },
		"Set": func(ctx context.Context) error {
			_, err := e.Set(ctx, []engine.Task{r.task("1", past)})
			return err
		},
		"Move": func(ctx context.Context) error {
			_, err := e.Move(ctx, []engine.Move{{Key: r.key("1"), Due: past}})
			return err
		},
		"Remove": func(ctx context.Context) error { _, err := e.Remove(ctx, removals(r.keys("1"))); return err },
		"Replay": func(ctx context.Context) error { _, err := e.Replay(ctx, r.keys("1")); return err },
		"Get":    func(ctx context.Context) error { _, err := e.Get(ctx, r.keys("1")); return err },
		"List": func(ctx context.Context) error {
			_, err := e.List(ctx, engine.Query{Topic: r.topic, State: engine.Pending})
			return err
		},
		"Lease": func(ctx context.Context) error {
			_, err := e.Lease(ctx, r.ask(engine.Ask{Max: 1}))
			return err
		},
		"Extend": func(ctx context.Context) error {
			_, err := e.Extend(ctx, []engine.Token{token}, long)
			return err
		},
		"Maintain": func(ctx context.Context) error { _, err := e.Maintain(ctx); return err },
		"Now":      func(ctx context.Context) error { _, err := e.Now(ctx); return err },
		"Ready":    e.Ready,
		"Heartbeat": func(ctx context.Context) error {
			_, err := e.Heartbeat(ctx, engine.Node{Name: r.topic}, time.Second)
			return err
		},
		"Leave": func(ctx context.Context) error { return e.Leave(ctx, r.topic) },
	}
}

// callsBesideOthers are calls, but for those that disturb other tests on a shared store.
func (r *rig) callsBesideOthers(e engine.Engine, token engine.Token) map[string]func(ctx context.Context) error {
	calls := r.calls(e, token)
	for _, name := range []string{"DropTopic", "Heartbeat", "Leave"} {
		delete(calls, name)
	}
	return calls
}

// testContext makes calls with an ended context.
func testContext(r *rig) {
	require.NoError(r.t, r.engine.Ready(r.ctx))
	r.make(engine.Topic{Slots: 2})
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

// testContextEnds makes calls whose contexts end meanwhile. An error is theirs, and the engine works on.
func testContextEnds(r *rig) {
	r.make(engine.Topic{Slots: 2})
	r.set("1", newDue)
	calls := r.callsBesideOthers(r.engine, r.leased("2", long).Token)
	for name, call := range calls {
		for n := range 40 {
			end := time.Now().Add(time.Duration(n) * 50 * time.Microsecond)
			ctx, cancel := context.WithDeadline(r.ctx, end)
			err := call(ctx)
			require.True(r.t, err == nil || !time.Now().Before(end), "%s: %v", name, err)
			cancel()
		}
		require.NoError(r.t, call(r.ctx), name)
	}
}

// another opens a further engine for the test to close, with a rig for it.
func (r *rig) another() *rig {
	open := r.opts.Second
	if open == nil {
		open = r.opts.Open
	}
	e := open(r.t)
	own := *r
	own.suite = &suite{engine: e, second: e, opts: r.opts}
	own.make(engine.Topic{Slots: 2})
	return &own
}

// testClose closes an engine after some work.
func testClose(r *rig) {
	own := r.another()
	own.set("1", newDue)
	leased := own.leased("2", long)
	waked := make(chan struct{})
	if waker, ok := own.engine.(engine.Waker); ok {
		ctx, cancel := context.WithCancel(r.ctx)
		go func() {
			_ = waker.Wake(ctx, func(string) {}, func(engine.Key) {}) // any result will do: the engine may be closed
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
		require.ErrorIs(r.t, call(r.ctx), engine.ErrClosed, name)
	}
	if r.opts.Second != nil { // the closed engine's work stays, and others go on
		require.Equal(r.t, engine.Pending, r.get("1").State)
		require.Equal(r.t, []bool{true}, r.settle(engine.Outcome{Token: leased.Token, As: engine.Done}))
	}
	r.t.Run("WhileInUse", func(t *testing.T) {
		inner := *r
		inner.t, inner.topic = t, unique("test")
		inner.closeWhileInUse()
	})
}

// closeWhileInUse closes the engine during calls. Each call must end, with an error or without.
func (r *rig) closeWhileInUse() {
	own := r.another()
	ended := make(chan string)
	calls := own.callsBesideOthers(own.engine, own.leased("2", long).Token)
	for name, call := range calls {
		go func() {
			for start := time.Now(); time.Since(start) < patient; {
				if errors.Is(call(r.ctx), engine.ErrClosed) {
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
