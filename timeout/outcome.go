package timeout

import (
	"context"
	"errors"
	"time"
)

// ErrAccepted is the error of a Handler or a Caller if somebody else goes on with the work and
// reports the result later, with the token: see Center.Feedback. The task stays Running. If
// nothing has come when its lease ends, it is leased again, as after the death of a worker. The
// error may be wrapped.
var ErrAccepted = errors.New("timeout: accepted, the result comes later")

// Permanent marks the error of an attempt as one that another attempt would meet as well: the
// task is Dead at once, however many attempts are left. The result has the text of err, and
// errors.Is and errors.As see through it. Permanent(nil) is nil.
func Permanent(err error) error {
	if err == nil {
		return nil
	}
	return &permanentError{err}
}

// IsPermanent reports whether err, or any error wrapped or joined in it, came from Permanent. It
// takes precedence over RetryDelay and ErrAccepted in the same error.
func IsPermanent(err error) bool {
	var permanent *permanentError
	return errors.As(err, &permanent)
}

// RetryAfter marks the error of an attempt with the wait before the next one, in place of the
// topic's Backoff: a target may say when it will be back. The attempt counts all the same. A
// negative d is zero, and zero means at once. The result has the text of err, and errors.Is and
// errors.As see through it. RetryAfter(nil, d) is nil, since a success has no next attempt.
func RetryAfter(err error, d time.Duration) error {
	if err == nil {
		return nil
	}
	return &retryError{err, max(d, 0)}
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

type permanentError struct{ err error }

func (e *permanentError) Error() string { return e.err.Error() }
func (e *permanentError) Unwrap() error { return e.err }

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
