package timeout

import (
	"context"
	"errors"
	"time"
)

// ErrAccepted is what a Handler or a Caller returns for work that somebody else does from
// now on, and whose result comes later, with the token: see Center.Feedback. The task stays
// Running. Where nothing has come when its lease ends, it is leased again like one whose
// worker died. It may be wrapped.
var ErrAccepted = errors.New("timeout: accepted, the result comes later")

// Permanent marks the error of an attempt as one that another attempt would meet as well:
// the task is Dead at once, however many attempts are left. It has the text of err, and
// errors.Is and errors.As see through it. Of nil it is nil.
func Permanent(err error) error {
	if err == nil {
		return nil
	}
	return &permanentError{err}
}

// IsPermanent reports whether err, or any error that it wraps or joins, came from
// Permanent. It is asked before RetryDelay and ErrAccepted: what is permanent is that,
// whatever was joined to it.
func IsPermanent(err error) bool {
	var permanent *permanentError
	return errors.As(err, &permanent)
}

// RetryAfter marks the error of an attempt with how long the next one shall wait, in place
// of what the topic's Backoff would give: a target has said when it will be back. The
// attempt counts all the same. Less than zero is zero, which means at once. It has the text
// of err, and errors.Is and errors.As see through it. Of nil it is nil, since a success has
// no next attempt.
func RetryAfter(err error, d time.Duration) error {
	if err == nil {
		return nil
	}
	return &retryError{err, max(d, 0)}
}

// RetryDelay returns the delay that err, or an error that it wraps or joins, was given by
// RetryAfter, and whether there is one. Where there are several, it is the outermost, and of
// those that are joined the first.
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

// WithToken returns a context that carries the token of the lease under which a Handler or
// a Caller is called.
func WithToken(ctx context.Context, token Token) context.Context {
	return context.WithValue(ctx, tokenKey{}, token)
}

// TokenOf returns the token of the lease that ctx belongs to, and whether there is one. It
// is what a Handler gives to whoever shall feed the result back.
func TokenOf(ctx context.Context) (Token, bool) {
	token, ok := ctx.Value(tokenKey{}).(Token)
	return token, ok
}
