package index

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/heartwheel-go/heartwheel/timeout"
)

const (
	// longer is for how many times Patience the index may take for what is of no limited size.
	longer = 5

	// rest is how long an index that has failed is left alone.
	rest = time.Second
)

// errAway says that the index is left alone, since it has failed.
var errAway = errors.New("timeout/index: the index is away")

// guard is the index, with a bound on what it holds up: a call has to answer in time, and after
// one that has failed, others fail at once. Of those that come after a rest, one is tried.
type guard struct {
	timeout.Engine
	patience time.Duration
	log      *slog.Logger

	mu    sync.Mutex
	away  bool
	until time.Time // when it is tried again, if it is away
}

// enter reports whether the index is to be asked.
func (g *guard) enter(patience time.Duration) error {
	g.mu.Lock()
	defer g.mu.Unlock()
	now := time.Now()
	if g.away && now.Before(g.until) {
		return errAway
	}
	g.until = now.Add(patience + rest) // for the others
	return nil
}

// leave notes what came of a call.
func (g *guard) leave(err error) {
	g.mu.Lock()
	before := g.away
	g.away = isTrouble(err)
	g.until = time.Now().Add(rest)
	g.mu.Unlock()
	switch {
	case err != nil && !before && isTrouble(err):
		g.log.Warn("timeout/index: the index is away, and what is due is looked for in the truth", "err", err)
	case before && !isTrouble(err):
		g.log.Info("timeout/index: the index is back")
	}
}

// isTrouble reports whether an error is of the index, and not its answer.
func isTrouble(err error) bool {
	if err == nil {
		return false
	}
	for _, answer := range []error{
		timeout.ErrArgument, timeout.ErrNotFound, timeout.ErrConflict, timeout.ErrFenced,
		timeout.ErrUnsupported, timeout.ErrFull, timeout.ErrClosed,
	} {
		if errors.Is(err, answer) {
			return false
		}
	}
	return true
}

// ask has the index do something.
func ask[A any](ctx context.Context, g *guard, patience time.Duration, do func(context.Context) (A, error)) (A, error) {
	var none A
	if err := g.enter(patience); err != nil {
		return none, err
	}
	within, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	answer, err := do(within)
	if err != nil && ctx.Err() != nil {
		return answer, err // the caller has no patience: that says nothing of the index
	}
	if err != nil && within.Err() != nil {
		err = fmt.Errorf("no answer within %v: %w", patience, err)
	}
	g.leave(err)
	return answer, err
}

// whole makes an error of the call of one that a part of the index has: what is there can't be found
// in it.
func whole(answers []timeout.Answer, err error) ([]timeout.Answer, error) {
	for _, answer := range answers {
		if err == nil && isTrouble(answer.Err) {
			err = answer.Err
		}
	}
	return answers, err
}

func (g *guard) Set(ctx context.Context, tasks []timeout.Task) ([]timeout.Answer, error) {
	return ask(ctx, g, g.patience, func(ctx context.Context) ([]timeout.Answer, error) { return whole(g.Engine.Set(ctx, tasks)) })
}

func (g *guard) Remove(ctx context.Context, removals []timeout.Removal) ([]timeout.Answer, error) {
	return ask(ctx, g, g.patience, func(ctx context.Context) ([]timeout.Answer, error) { return whole(g.Engine.Remove(ctx, removals)) })
}

func (g *guard) Get(ctx context.Context, keys []timeout.Key) ([]timeout.Task, error) {
	return ask(ctx, g, g.patience, func(ctx context.Context) ([]timeout.Task, error) { return g.Engine.Get(ctx, keys) })
}

func (g *guard) Expire(ctx context.Context, what timeout.Ask) (timeout.Batch, error) {
	return ask(ctx, g, g.patience, func(ctx context.Context) (timeout.Batch, error) { return g.Engine.Expire(ctx, what) })
}

func (g *guard) Extend(ctx context.Context, tokens []timeout.Token, lease time.Duration) ([]bool, error) {
	return ask(ctx, g, g.patience, func(ctx context.Context) ([]bool, error) { return g.Engine.Extend(ctx, tokens, lease) })
}

func (g *guard) Topics(ctx context.Context) ([]timeout.Topic, error) {
	return ask(ctx, g, g.patience, g.Engine.Topics)
}

func (g *guard) SetTopic(ctx context.Context, topic timeout.Topic, onlyNew bool) (timeout.Topic, error) {
	return ask(ctx, g, longer*g.patience, func(ctx context.Context) (timeout.Topic, error) { return g.Engine.SetTopic(ctx, topic, onlyNew) })
}

func (g *guard) DropTopic(ctx context.Context, name string) error {
	_, err := ask(ctx, g, longer*g.patience, func(ctx context.Context) (struct{}, error) { return struct{}{}, g.Engine.DropTopic(ctx, name) })
	return err
}

func (g *guard) Upkeep(ctx context.Context, term int64) (timeout.Swept, error) {
	return ask(ctx, g, longer*g.patience, func(ctx context.Context) (timeout.Swept, error) { return g.Engine.Upkeep(ctx, term) })
}
