package engine

import (
	"context"
	"fmt"
	"sync/atomic"
)

// Attempt is a handler's attempt at a task. The context of the handler carries it, for engines that can end a task in a
// transaction of the handler's own.
type Attempt struct {
	// Success returns the outcome if the handler succeeds now.
	Success func() Outcome

	settled atomic.Bool
}

type attemptKey struct{}

// WithAttempt returns the context of a handler. It is for centers.
func WithAttempt(ctx context.Context, attempt *Attempt) context.Context {
	return context.WithValue(ctx, attemptKey{}, attempt)
}

// AttemptOf returns the attempt of a handler's context, or an error wrapping ErrArgument. It is for engines.
func AttemptOf(ctx context.Context) (*Attempt, error) {
	if attempt, ok := ctx.Value(attemptKey{}).(*Attempt); ok {
		return attempt, nil
	}
	return nil, fmt.Errorf("%w: context of no handler, must be that of one: its task is to be done", ErrArgument)
}

// Settle notes that the handler's own transaction settles the attempt: if the handler returns nil, nobody else does.
func (a *Attempt) Settle() { a.settled.Store(true) }

// Settled reports whether Settle was called.
func (a *Attempt) Settled() bool { return a.settled.Load() }
