package heartbeat

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"slices"
	"time"

	"github.com/cenkalti/backoff/v5"
)

// Backoff says how long [Reconnect] waits between connections: a random time between zero and a
// bound. The bound is First at first, and doubles each time up to Max. This is full jitter: no
// other way spreads the clients of a failed server better. The zero value is useful.
type Backoff struct {
	// First is the bound of the first wait. Zero means a second, or Max if that is shorter.
	// Within First, the server must be able to take all clients.
	First time.Duration

	// Max bounds all waits. Zero means a minute, or First if that is longer.
	Max time.Duration

	// Steady is how long a connection must have lived for the waits to begin with
	// First again. Zero means Max.
	Steady time.Duration

	// OnWait is told before each wait why the last connection has ended, or could not
	// be made, and how long the wait will be. Nil means nobody.
	OnWait func(err error, wait time.Duration)

	// Logger gets a line per wait at Info. Nil means silence.
	Logger *slog.Logger
}

// Reconnect calls dial and then session with the connection, again and again, with waits between
// them, until session returns nil: then it returns nil, too. It closes each connection after its
// session has returned, and at once when ctx is done: then a reading session ends. The session's
// context ends with the session.
//
// It gives up if trying again is pointless, and returns the error as it is: if anything in its
// chain has a method Retryable() bool and the method returns false, as for some of
// keepalive.Reason, or if backoff.Permanent of github.com/cenkalti/backoff/v5 wraps it. A
// backoff.RetryAfter lengthens the wait. When ctx is done, Reconnect returns an error wrapping
// ctx.Err() and the last error of dial or session. It returns [ErrArgument], wrapped with the
// values and their limit, if the Backoff asks for something impossible, or dial or session is
// nil.
func Reconnect(ctx context.Context, b Backoff,
	dial func(ctx context.Context) (net.Conn, error),
	session func(ctx context.Context, conn net.Conn) error,
) error {
	b, err := b.withDefaults()
	switch {
	case err != nil:
		return err
	case dial == nil || session == nil:
		return fmt.Errorf("%w: dial or session is nil", ErrArgument)
	}
	waits := b.waits()
	var last error
	for ctx.Err() == nil {
		var lived time.Duration
		lived, last = connect(ctx, dial, session)
		if last == nil || !retryable(last) {
			return last
		}
		if ctx.Err() != nil {
			break
		}
		if lived >= b.Steady {
			waits.Reset()
		}
		b.wait(ctx, last, waits.NextBackOff())
	}
	if last == nil {
		return ctx.Err()
	}
	return fmt.Errorf("%w; before that: %w", ctx.Err(), last)
}

// connect makes one connection and returns how its session has ended, and how long it
// was.
func connect(ctx context.Context,
	dial func(ctx context.Context) (net.Conn, error),
	session func(ctx context.Context, conn net.Conn) error,
) (lived time.Duration, err error) {
	conn, err := dial(ctx)
	switch {
	case err != nil:
		return 0, err
	case conn == nil:
		return 0, backoff.Permanent(fmt.Errorf("%w: dial returned neither a connection nor an error", ErrArgument))
	}
	defer conn.Close()
	defer context.AfterFunc(ctx, func() { _ = conn.Close() })()
	inner, cancel := context.WithCancel(ctx)
	defer cancel()
	begin := time.Now()
	err = session(inner, conn)
	return time.Since(begin), err
}

// retryable reports whether another connection may help: not if anything in the error denies it.
func retryable(err error) bool {
	switch e := err.(type) { //nolint:errorlint // this is the walk through the chain
	case *backoff.PermanentError:
		return false
	case interface{ Retryable() bool }:
		if !e.Retryable() {
			return false
		}
	}
	switch e := err.(type) { //nolint:errorlint // the same
	case interface{ Unwrap() error }:
		return retryable(e.Unwrap())
	case interface{ Unwrap() []error }:
		return !slices.ContainsFunc(e.Unwrap(), func(err error) bool { return !retryable(err) })
	}
	return true
}

// wait waits, unless ctx is done before.
func (b Backoff) wait(ctx context.Context, err error, d time.Duration) {
	var after *backoff.RetryAfterError
	if errors.As(err, &after) { // said to many at the same time, so still with jitter
		d += min(max(0, after.Duration), longest)
	}
	if b.Logger != nil {
		b.Logger.InfoContext(ctx, "heartbeat: connecting again", "after", d, "error", err)
	}
	if b.OnWait != nil {
		b.OnWait(err, d)
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
}

// waits returns the source of the waits: between none and twice an interval. In the terms of
// package backoff, this is full jitter.
func (b Backoff) waits() backoff.BackOff {
	return &backoff.ExponentialBackOff{
		InitialInterval:     b.First / 2,
		MaxInterval:         b.Max / 2,
		Multiplier:          2,
		RandomizationFactor: 1,
	}
}

func (b Backoff) withDefaults() (Backoff, error) {
	for _, field := range []struct {
		name  string
		value time.Duration
	}{
		{"First", b.First},
		{"Max", b.Max},
		{"Steady", b.Steady},
	} {
		if field.value < 0 || field.value > longest {
			return b, fmt.Errorf("%w: %s %v, must be 0 to %v", ErrArgument, field.name, field.value, longest)
		}
	}
	switch {
	case b.First == 0 && b.Max == 0:
		b.First, b.Max = time.Second, time.Minute
	case b.First == 0:
		b.First = min(time.Second, b.Max)
	case b.Max == 0:
		b.Max = max(time.Minute, b.First)
	}
	if b.First > b.Max {
		return b, fmt.Errorf("%w: First %v is longer than Max %v", ErrArgument, b.First, b.Max)
	}
	if b.First < 2 {
		return b, fmt.Errorf("%w: First %v, must be at least 2ns", ErrArgument, b.First)
	}
	if b.Steady == 0 {
		b.Steady = b.Max
	}
	return b, nil
}
