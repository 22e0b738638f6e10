package sharded_test

import (
	"context"
	"errors"
	"net"
	"os"
	"sync/atomic"
	"time"

	"github.com/heartwheel-go/heartwheel/timeout/engine"
)

// The states of a shaky shard.
const (
	well = iota
	refusing
	hanging // does nothing, and answers when the caller gives up
	deaf    // does its work, and answers when the caller gives up

	stubborn // refuses outcomes
	stuck    // outcomes hang
	frozen   // changes hang, as those of a server whose disk hangs, and reads do not
	paused   // the same, and the client gives up before the caller
)

// clientTimeout is how long the client of a paused shard waits for an answer.
const clientTimeout = 3 * time.Second

var errRefused = errors.New("connection refused")

// shaky is a shard with adjustable failures.
type shaky struct {
	engine.Engine
	is atomic.Int32
}

// change is through for a call that may change something.
func change[A any](ctx context.Context, s *shaky, do func() (A, error)) (A, error) {
	if s.isFrozen() {
		return *new(A), s.hang(ctx)
	}
	return through(ctx, s, do)
}

// isFrozen reports whether changes hang.
func (s *shaky) isFrozen() bool {
	is := s.is.Load()
	return is == frozen || is == paused
}

// hang waits as long as the client or the caller does.
func (s *shaky) hang(ctx context.Context) error {
	var gaveUp <-chan time.Time
	if s.is.Load() == paused {
		gaveUp = time.After(clientTimeout)
	}
	select {
	case <-gaveUp:
		return &net.OpError{Op: "read", Err: os.ErrDeadlineExceeded}
	case <-ctx.Done():
		return ctx.Err()
	}
}

// through makes a call of the shard in its state.
func through[A any](ctx context.Context, s *shaky, do func() (A, error)) (A, error) {
	var none A
	is := s.is.Load()
	switch is {
	case refusing:
		return none, errRefused
	case hanging:
		<-ctx.Done()
		return none, ctx.Err()
	}
	answer, err := do()
	if is == deaf {
		<-ctx.Done()
		return none, ctx.Err()
	}
	return answer, err
}

func (s *shaky) SetTopic(ctx context.Context, topic engine.Topic, onlyNew bool, was ...engine.Topic) (engine.Topic, error) {
	return change(ctx, s, func() (engine.Topic, error) { return s.Engine.SetTopic(ctx, topic, onlyNew, was...) })
}

func (s *shaky) Topics(ctx context.Context) ([]engine.Topic, error) {
	return through(ctx, s, func() ([]engine.Topic, error) { return s.Engine.Topics(ctx) })
}

func (s *shaky) DropTopic(ctx context.Context, name string) error {
	_, err := change(ctx, s, func() (int, error) { return 0, s.Engine.DropTopic(ctx, name) })
	return err
}

func (s *shaky) Count(ctx context.Context, topic string) (engine.Counts, error) {
	return through(ctx, s, func() (engine.Counts, error) { return s.Engine.Count(ctx, topic) })
}

func (s *shaky) Set(ctx context.Context, tasks []engine.Task) ([]engine.Answer, error) {
	return change(ctx, s, func() ([]engine.Answer, error) { return s.Engine.Set(ctx, tasks) })
}

func (s *shaky) Get(ctx context.Context, keys []engine.Key) ([]engine.Task, error) {
	return through(ctx, s, func() ([]engine.Task, error) { return s.Engine.Get(ctx, keys) })
}

func (s *shaky) Lease(ctx context.Context, ask engine.Ask) (engine.Batch, error) {
	return through(ctx, s, func() (engine.Batch, error) {
		settles := len(ask.Settle) > 0
		switch is := s.is.Load(); {
		case is == stubborn && settles:
			return engine.Batch{}, engine.ErrFull
		case is == stuck && settles, s.isFrozen() && (settles || ask.Max > 0 && s.due(ask.Topic)):
			return engine.Batch{}, s.hang(ctx)
		case s.isFrozen():
			ask.Max = 0
		}
		return s.Engine.Lease(ctx, ask)
	})
}

// due reports whether a topic has a due task.
func (s *shaky) due(topic string) bool {
	counts, err := s.Engine.Count(context.Background(), topic)
	return err == nil && counts.Due > 0
}

func (s *shaky) Extend(ctx context.Context, tokens []engine.Token, lease time.Duration) ([]bool, error) {
	return change(ctx, s, func() ([]bool, error) { return s.Engine.Extend(ctx, tokens, lease) })
}

func (s *shaky) Maintain(ctx context.Context) (engine.Purged, error) {
	return change(ctx, s, func() (engine.Purged, error) { return s.Engine.Maintain(ctx) })
}

func (s *shaky) Heartbeat(ctx context.Context, node engine.Node, ttl time.Duration) (engine.View, error) {
	return change(ctx, s, func() (engine.View, error) { return s.Engine.Heartbeat(ctx, node, ttl) })
}

func (s *shaky) Now(ctx context.Context) (time.Time, error) {
	return through(ctx, s, func() (time.Time, error) { return s.Engine.Now(ctx) })
}
