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

// Settled reports whether the handler's own transaction settles the attempt: if the handler returns nil, nobody else does.
func (a *Attempt) Settled() bool { return a.settled.Load() }

// SettleAttempt calls settle with the success of the attempt of a handler's context. settle reports whether the lease was the
// last one of its task. If not, the error wraps ErrLeaseLost. It wraps ErrArgument if ctx is no handler's. SettleAttempt is for
// engines.
func SettleAttempt(ctx context.Context, settle func(Outcome) (settled bool, err error)) error {
	attempt, ok := ctx.Value(attemptKey{}).(*Attempt)
	if !ok {
		return fmt.Errorf("%w: context of no handler, must be that of one: its task is to be done", ErrArgument)
	}
	outcome := attempt.Success()
	settled, err := settle(outcome)
	if err == nil && !settled {
		err = fmt.Errorf("%w: of %v", ErrLeaseLost, outcome.Token.Key)
	}
	if err == nil {
		attempt.settled.Store(true)
	}
	return err
}
