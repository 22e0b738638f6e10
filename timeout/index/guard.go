package index

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/heartwheel-go/heartwheel/timeout/engine"
)

const (
	// longer is the time limit of calls without a size limit, as a multiple of CallTimeout.
	longer = 5

	// rest is the pause after a failure of the index.
	rest = time.Second
)

// errAway says that the index rests after a failure.
var errAway = errors.New("timeout/index: the index is away")

// guard is the index, with a limit on its delays. A call must answer in time.
// After a failure, calls fail at once. After a rest, one call tries the index again.
type guard struct {
	engine.Engine
	timeout time.Duration
	log     *slog.Logger

	mu    sync.Mutex
	away  bool
	until time.Time // time of the next try, if the index is away
}

// enter returns errAway if a call must not ask the index.
func (g *guard) enter(timeout time.Duration) error {
	g.mu.Lock()
	defer g.mu.Unlock()
	now := time.Now()
	if g.away && now.Before(g.until) {
		return errAway
	}
	g.until = now.Add(timeout + rest) // if the index is away, other calls wait for this one
	return nil
}

// leave notes the result of a call.
func (g *guard) leave(err error) {
	away := engine.IsTrouble(err)
	g.mu.Lock()
	before := g.away
	g.away = away
	g.until = time.Now().Add(rest)
	g.mu.Unlock()
	switch {
	case away && !before:
		g.log.Warn("timeout/index: the index is away, and what is due is looked for in the primary", "err", err)
	case before && !away:
		g.log.Info("timeout/index: the index is back")
	}
}

// ask calls the index, unless it rests after a failure.
func ask[A any](ctx context.Context, g *guard, timeout time.Duration, do func(context.Context) (A, error)) (A, error) {
	var none A
	if err := g.enter(timeout); err != nil {
		return none, err
	}
	within, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	answer, err := do(within)
	if err != nil && ctx.Err() != nil {
		return answer, err // the caller's context ended: that says nothing about the index
	}
	if err != nil && within.Err() != nil {
		err = fmt.Errorf("no answer within %v: %w", timeout, err)
	}
	g.leave(err)
	return answer, err
}

// whole turns a failure of a part of the index into an error of the whole call: the index can't
// find the entries of that part.
func whole(answers []engine.Answer, err error) ([]engine.Answer, error) {
	for _, answer := range answers {
		if err == nil && engine.IsTrouble(answer.Err) {
			err = answer.Err
		}
	}
	return answers, err
}

func (g *guard) Set(ctx context.Context, tasks []engine.Task) ([]engine.Answer, error) {
	return ask(ctx, g, g.timeout, func(ctx context.Context) ([]engine.Answer, error) { return whole(g.Engine.Set(ctx, tasks)) })
}

func (g *guard) Remove(ctx context.Context, removals []engine.Removal) ([]engine.Answer, error) {
	return ask(ctx, g, g.timeout, func(ctx context.Context) ([]engine.Answer, error) { return whole(g.Engine.Remove(ctx, removals)) })
}

func (g *guard) Move(ctx context.Context, moves []engine.Move) ([]engine.Answer, error) {
	return ask(ctx, g, g.timeout, func(ctx context.Context) ([]engine.Answer, error) { return whole(g.Engine.Move(ctx, moves)) })
}

func (g *guard) Lease(ctx context.Context, what engine.Ask) (engine.Batch, error) {
	return ask(ctx, g, g.timeout, func(ctx context.Context) (engine.Batch, error) { return g.Engine.Lease(ctx, what) })
}

func (g *guard) Topics(ctx context.Context) ([]engine.Topic, error) {
	return ask(ctx, g, g.timeout, g.Engine.Topics)
}

func (g *guard) SetTopic(ctx context.Context, topic engine.Topic, onlyNew bool, was ...engine.Topic) (engine.Topic, error) {
	return ask(ctx, g, longer*g.timeout, func(ctx context.Context) (engine.Topic, error) { return g.Engine.SetTopic(ctx, topic, onlyNew, was...) })
}

func (g *guard) DropTopic(ctx context.Context, name string) error {
	_, err := ask(ctx, g, longer*g.timeout, func(ctx context.Context) (struct{}, error) { return struct{}{}, g.Engine.DropTopic(ctx, name) })
	return err
}

func (g *guard) Maintain(ctx context.Context) (engine.Purged, error) {
	return ask(ctx, g, longer*g.timeout, g.Engine.Maintain)
}
