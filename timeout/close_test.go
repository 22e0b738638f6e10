package timeout_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/heartwheel-go/heartwheel/timeout"
	"github.com/heartwheel-go/heartwheel/timeout/engine"
	"github.com/heartwheel-go/heartwheel/timeout/memory"
)

// held is an engine whose answers can be held up.
type held struct {
	engine.Engine
	gate chan struct{} // nil means that it is open
}

func through[A any](h *held, answer A, err error) (A, error) {
	if h.gate != nil {
		<-h.gate
	}
	return answer, err
}

func (h *held) Set(ctx context.Context, tasks []timeout.Task) ([]timeout.Answer, error) {
	answers, err := h.Engine.Set(ctx, tasks)
	return through(h, answers, err)
}

func (h *held) Move(ctx context.Context, moves []timeout.Move) ([]timeout.Answer, error) {
	answers, err := h.Engine.Move(ctx, moves)
	return through(h, answers, err)
}

func (h *held) Remove(ctx context.Context, removals []timeout.Removal) ([]timeout.Answer, error) {
	answers, err := h.Engine.Remove(ctx, removals)
	return through(h, answers, err)
}

func (h *held) Replay(ctx context.Context, keys []timeout.Key) ([]timeout.Answer, error) {
	answers, err := h.Engine.Replay(ctx, keys)
	return through(h, answers, err)
}

func (h *held) Get(ctx context.Context, keys []timeout.Key) ([]timeout.Task, error) {
	tasks, err := h.Engine.Get(ctx, keys)
	return through(h, tasks, err)
}

func (h *held) List(ctx context.Context, query timeout.Query) (timeout.Page, error) {
	page, err := h.Engine.List(ctx, query)
	return through(h, page, err)
}

func (h *held) Lease(ctx context.Context, ask engine.Ask) (engine.Batch, error) {
	batch, err := h.Engine.Lease(ctx, ask)
	return through(h, batch, err)
}

func (h *held) Extend(ctx context.Context, tokens []timeout.Token, lease time.Duration) ([]bool, error) {
	kept, err := h.Engine.Extend(ctx, tokens, lease)
	return through(h, kept, err)
}

func (h *held) SetTopic(ctx context.Context, topic timeout.Topic, onlyNew bool, was ...timeout.Topic) (timeout.Topic, error) {
	topic, err := h.Engine.SetTopic(ctx, topic, onlyNew, was...)
	return through(h, topic, err)
}

func (h *held) Topics(ctx context.Context) ([]timeout.Topic, error) {
	topics, err := h.Engine.Topics(ctx)
	return through(h, topics, err)
}

func (h *held) Pause(ctx context.Context, topic string, paused bool, until time.Time) (timeout.Topic, error) {
	kept, err := h.Engine.Pause(ctx, topic, paused, until)
	return through(h, kept, err)
}

func (h *held) DropTopic(ctx context.Context, topic string) error {
	_, err := through(h, topic, h.Engine.DropTopic(ctx, topic))
	return err
}

func (h *held) Count(ctx context.Context, topic string) (timeout.Counts, error) {
	counts, err := h.Engine.Count(ctx, topic)
	return through(h, counts, err)
}

func (h *held) Ready(ctx context.Context) error {
	_, err := through(h, ctx, h.Engine.Ready(ctx))
	return err
}

func (h *held) Now(ctx context.Context) (time.Time, error) {
	now, err := h.Engine.Now(ctx)
	return through(h, now, err)
}

func (h *held) Executions(ctx context.Context, key timeout.Key, limit int) ([]timeout.Execution, error) {
	all, err := h.Engine.(engine.Log).Executions(ctx, key, limit)
	return through(h, all, err)
}

// calls returns a call of each verb, by name.
func calls(ctx context.Context, c *timeout.Center, token timeout.Token) map[string]func() error {
	task, key := timeout.Task{Topic: "orders", ID: "1", After: time.Hour}, timeout.Key{Topic: "orders", ID: "1"}
	of := func(_ any, err error) error { return err }
	return map[string]func() error{
		"Set":        func() error { return of(c.Set(ctx, task)) },
		"SetAll":     func() error { return of(c.SetAll(ctx, []timeout.Task{task})) },
		"Move":       func() error { return of(c.Move(ctx, key, time.Now())) },
		"MoveAfter":  func() error { return of(c.MoveAfter(ctx, key, time.Hour)) },
		"MoveAll":    func() error { return of(c.MoveAll(ctx, []timeout.Move{{Key: key}})) },
		"Remove":     func() error { return of(c.Remove(ctx, key)) },
		"RemoveAll":  func() error { return of(c.RemoveAll(ctx, []timeout.Removal{{Key: key}})) },
		"Replay":     func() error { return of(c.Replay(ctx, []timeout.Key{key})) },
		"Get":        func() error { return of(c.Get(ctx, key)) },
		"GetAll":     func() error { return of(c.GetAll(ctx, []timeout.Key{key})) },
		"List":       func() error { return of(c.List(ctx, timeout.Query{Topic: "orders", State: timeout.Pending})) },
		"Executions": func() error { return of(c.Executions(ctx, key, 1)) },
		"Pull":       func() error { return of(c.Pull(ctx, timeout.Pull{Topic: "orders"})) },
		"Extend":     func() error { return of(c.Extend(ctx, token, 0)) },
		"Feedback":   func() error { return of(c.Feedback(ctx, token, nil)) },
		"Release":    func() error { return c.Release(ctx, timeout.Leased{Token: token}) },
		"SetTopic":   func() error { return of(c.SetTopic(ctx, timeout.Topic{Name: "mails"})) },
		"Topic":      func() error { return of(c.Topic(ctx, "orders")) },
		"Topics":     func() error { return of(c.Topics(ctx)) },
		"Pause":      func() error { return c.Pause(ctx, "orders") },
		"Resume":     func() error { return c.Resume(ctx, "orders") },
		"DropTopic":  func() error { return c.DropTopic(ctx, "orders") },
		"Count":      func() error { return of(c.Count(ctx, "orders")) },
		"Ready":      func() error { return c.Ready(ctx) },
		"Now":        func() error { return of(c.Now(ctx)) },
	}
}

// The engine is closed after the center. A call under way must have its answer by then.
func TestCloseWaitsForTheCallsUnderWay(t *testing.T) {
	for name := range calls(t.Context(), nil, timeout.Token{}) {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T) {
				inMemory, err := memory.New(memory.Config{})
				require.NoError(t, err)
				defer inMemory.Close()
				slow := &held{Engine: inMemory}
				c, err := timeout.New(slow, timeout.Config{})
				require.NoError(t, err)
				_, err = c.SetTopic(t.Context(), timeout.Topic{Name: "orders", Pull: true})
				require.NoError(t, err)
				_, err = c.SetAll(t.Context(), []timeout.Task{{Topic: "orders", ID: "1"}, {Topic: "orders", ID: "2"}})
				require.NoError(t, err)
				pass(time.Second)
				leased, err := c.Pull(t.Context(), timeout.Pull{Topic: "orders"})
				require.NoError(t, err)

				slow.gate = make(chan struct{})
				called, closed := make(chan error, 1), make(chan error, 1)
				go func() { called <- calls(t.Context(), c, leased[0].Token)[name]() }()
				synctest.Wait()
				go func() { closed <- c.Close() }()
				synctest.Wait()
				early := len(closed)
				close(slow.gate)
				if err := <-called; name != "Pull" { // it ends with Close
					require.NoError(t, err)
				}
				require.NoError(t, <-closed)
				require.Zero(t, early)
			})
		})
	}
}

func TestAHandlerMayCloseTheCenter(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		r := newRig(t, timeout.Config{Topic: timeout.Topic{Retain: time.Hour}})
		require.NoError(t, r.Handle("orders", func(context.Context, timeout.Task) error { return r.Close() }))
		r.set("1", 0)
		pass(time.Second)
		require.Equal(t, timeout.Done, r.state("1").State)
	})
}
