package timeout

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/heartwheel-go/heartwheel/timeout/engine"
)

// The errors between a center and its handlers: those that a handler returns, and the causes at the end of its context.
var (
	// ErrAccepted is the error of a Handler or a Caller if somebody else goes on with the work and
	// reports the result later, with the token: see Center.Feedback. The task stays Running. Its lease
	// then lasts for Topic.Timeout, or for Topic.Lease if that is longer or Timeout is negative. If
	// nothing has come when it ends, the task is leased again, as after the death of a worker. The
	// error may be wrapped.
	ErrAccepted = errors.New("timeout: accepted, the result comes later")

	// ErrPermanent is in the error of an attempt that another one would meet as well, see Permanent. It takes precedence over
	// RetryDelay and ErrAccepted in the same error.
	ErrPermanent = errors.New("timeout: permanent")

	// ErrAnswered is in the error of a Caller whose target is well, see Answered.
	ErrAnswered = errors.New("timeout: answered")

	// ErrUncounted is in the error of an attempt that does not count, see Uncounted.
	ErrUncounted = errors.New("timeout: uncounted")

	// ErrLeaseLost is the cause if the task is no longer this handler's.
	ErrLeaseLost = engine.ErrLeaseLost

	// ErrStopping is the cause if Run ends and its grace is over.
	ErrStopping = errors.New("timeout: center stopping")

	// ErrTimeout is the cause if Topic.Timeout has passed.
	ErrTimeout = errors.New("timeout: handler took too long")
)

// isAccepted reports whether an attempt goes on elsewhere.
func isAccepted(err error) bool { return errors.Is(err, ErrAccepted) && !isPermanent(err) }

func isPermanent(err error) bool { return errors.Is(err, ErrPermanent) }

// Failed reports whether the error of an attempt is a failure, for middleware that logs or counts. Nil is none, nor are
// [Again] and [ErrAccepted], unless the error is Permanent, too. An error of [Uncounted] is one, although the task does not
// count it.
func Failed(err error) bool {
	_, again := againDelay(err)
	return err != nil && !again && !isAccepted(err)
}

// Permanent marks the error of an attempt as one that another attempt would meet as well: the
// task is Dead at once, however many attempts are left. The result is ErrPermanent for errors.Is, has the text of err, and
// errors.Is and errors.As see through it. Permanent(nil) is nil.
func Permanent(err error) error { return mark(err, ErrPermanent) }

// Answered marks the error of a [Caller] as the answer of a target that is well: it refuses this task, as an HTTP server
// does with a status 400 or 404, and may do others. So the error never opens the circuit of the target, and counts as a
// success there. For the task it is a failure like any other. Answered(nil) is nil. The result is ErrAnswered for errors.Is,
// has the text of err, and errors.Is and errors.As see through it.
func Answered(err error) error { return mark(err, ErrAnswered) }

// Uncounted marks the error of an attempt that does not count: nothing is wrong with the task, and it is too early, as an HTTP
// server says by a status 429. Another attempt follows after the delay of RetryAfter, or the topic's Backoff. The task keeps
// its attempts and the error of the attempt before, and the log of executions leaves this one out. So a task can go on
// without end. A run of a periodic task ends with its next time all the same. Permanent and ErrAccepted in the same error go
// before it. Uncounted(nil) is nil. The result is ErrUncounted for errors.Is, has the text of err, and errors.Is and errors.As
// see through it.
func Uncounted(err error) error { return mark(err, ErrUncounted) }

func mark(err, as error) error {
	if err == nil {
		return nil
	}
	return &markedError{err, as}
}

// RetryAfter marks the error of an attempt with the wait before the next one, in place of the
// topic's Backoff: a target may say when it will be back. The attempt counts all the same. A
// negative d is zero, and zero means at once. More than 100 years are 100 years: Permanent is for
// no other attempt. The result has the text of err, and errors.Is and errors.As see through it.
// RetryAfter(nil, d) is nil, since a success has no next attempt.
func RetryAfter(err error, d time.Duration) error {
	if err == nil {
		return nil
	}
	return &retryError{err, min(max(d, 0), engine.MaxDuration)}
}

// RetryDelay returns the delay of RetryAfter in err, or in an error wrapped or joined in it, and
// whether there is one. Of several delays it is the outermost, and of joined errors the first.
func RetryDelay(err error) (time.Duration, bool) {
	var retry *retryError
	if !errors.As(err, &retry) {
		return 0, false
	}
	return retry.after, true
}

// Again returns an error for a Handler whose task has succeeded and is to run again: a periodic
// task. It is no failure: nothing waits for a backoff, no circuit counts it, and Stats counts the
// attempt as Done. The task begins a new run d from now, by the engine's clock. Attempts begin at 1
// again, the error of an earlier attempt is gone, and Task.Due is the new action time. The key,
// Task.Version, the payload and the callback stay. So Key and Version name the set, and Due tells
// its runs apart. A set, a removal or a dropped topic meanwhile wins: then Again changes nothing.
//
// Zero means at once. If d is negative or longer than 100 years, the error is an ordinary failure,
// wrapping ErrArgument. The error may be wrapped. Permanent and ErrAccepted in the same error go
// before Again, and Again goes before RetryAfter. Center.Feedback takes Again as well.
func Again(d time.Duration) error {
	if d < 0 || d > engine.MaxDuration {
		return fmt.Errorf("%w: Again(%v), must be from 0 to %v", ErrArgument, d, engine.MaxDuration)
	}
	return &againError{d}
}

// againDelay returns the delay of Again in err, and whether there is one that counts.
func againDelay(err error) (time.Duration, bool) {
	var again *againError
	if !errors.As(err, &again) || isPermanent(err) {
		return 0, false
	}
	return again.after, true
}

type againError struct{ after time.Duration }

func (e *againError) Error() string { return fmt.Sprintf("timeout: again in %v", e.after) }

// markedError is an error that is another one as well, for errors.Is.
type markedError struct{ err, as error }

func (e *markedError) Error() string        { return e.err.Error() }
func (e *markedError) Unwrap() error        { return e.err }
func (e *markedError) Is(target error) bool { return target == e.as }

type retryError struct {
	err   error
	after time.Duration
}

func (e *retryError) Error() string { return e.err.Error() }
func (e *retryError) Unwrap() error { return e.err }

type tokenKey struct{}

// WithToken returns a context that carries the token of the lease for a call of a Handler or a
// Caller.
func WithToken(ctx context.Context, token Token) context.Context {
	return context.WithValue(ctx, tokenKey{}, token)
}

// TokenOf returns the token of the lease of ctx, and whether there is one. A Handler passes it
// to the program that will feed the result back.
func TokenOf(ctx context.Context) (Token, bool) {
	token, ok := ctx.Value(tokenKey{}).(Token)
	return token, ok
}
