package timeout_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/heartwheel-go/heartwheel/timeout"
	"github.com/heartwheel-go/heartwheel/timeout/engine"
)

func TestMarksOfAnErrorAreSeenThroughWrapsAndJoins(t *testing.T) {
	cause := &fs.PathError{Op: "open", Path: "x", Err: io.ErrUnexpectedEOF}
	for _, wrap := range []func(error) error{
		func(err error) error { return err },
		func(err error) error { return fmt.Errorf("outer: %w", err) },
		func(err error) error { return errors.Join(io.EOF, err) },
		func(err error) error { return fmt.Errorf("two: %w, %w", io.EOF, err) },
		func(err error) error { return timeout.RetryAfter(err, time.Second) },
		timeout.Permanent,
	} {
		permanent := wrap(timeout.Permanent(cause))
		require.ErrorIs(t, permanent, timeout.ErrPermanent)
		require.ErrorIs(t, permanent, io.ErrUnexpectedEOF)
		var path *fs.PathError
		require.ErrorAs(t, permanent, &path)
		require.Equal(t, cause.Error(), timeout.Permanent(cause).Error())

		accepted := wrap(timeout.ErrAccepted)
		require.ErrorIs(t, accepted, timeout.ErrAccepted)

		// If the wrap has a delay, it is the outermost.
		want := 3 * time.Second
		if d, has := timeout.RetryDelay(wrap(cause)); has {
			want = d
		}
		retry := wrap(timeout.RetryAfter(cause, 3*time.Second))
		d, has := timeout.RetryDelay(retry)
		require.True(t, has)
		require.Equal(t, want, d)
		require.ErrorIs(t, retry, io.ErrUnexpectedEOF)
		require.Equal(t, cause.Error(), timeout.RetryAfter(cause, 1).Error())
	}
}

func TestNotEachErrorIsAFailure(t *testing.T) {
	for _, success := range []error{nil, timeout.Again(0), timeout.ErrAccepted, timeout.RetryAfter(timeout.ErrAccepted, time.Second)} {
		require.False(t, timeout.Failed(success), "%v", success)
		if success == nil {
			continue
		}
		require.False(t, timeout.Failed(fmt.Errorf("outer: %w", success)))
		require.False(t, timeout.Failed(errors.Join(io.EOF, success)))
		require.True(t, timeout.Failed(timeout.Permanent(success)))
	}
	for _, failure := range []error{io.EOF, timeout.Again(-1), timeout.Uncounted(io.EOF), timeout.Answered(io.EOF), timeout.Permanent(io.EOF)} {
		require.True(t, timeout.Failed(failure), "%v", failure)
	}
}

func TestWhatIsNotMarkedIsAnOrdinaryFailure(t *testing.T) {
	for _, err := range []error{nil, io.EOF, errors.Join(io.EOF, io.ErrClosedPipe), timeout.ErrAccepted} {
		require.NotErrorIs(t, err, timeout.ErrPermanent)
		_, has := timeout.RetryDelay(err)
		require.False(t, has)
	}
	_, has := timeout.RetryDelay(timeout.Permanent(io.EOF))
	require.False(t, has)
	require.NotErrorIs(t, timeout.RetryAfter(io.EOF, time.Second), timeout.ErrPermanent)
}

func TestASuccessStaysOneWhateverItIsMarkedWith(t *testing.T) {
	require.NoError(t, timeout.Permanent(nil))
	require.NoError(t, timeout.RetryAfter(nil, time.Second))
}

func TestOfJoinedDelaysTheFirstCountsAndNoneIsNegative(t *testing.T) {
	d, has := timeout.RetryDelay(errors.Join(timeout.RetryAfter(io.EOF, time.Second), timeout.RetryAfter(io.EOF, time.Hour)))
	require.True(t, has)
	require.Equal(t, time.Second, d)
	d, has = timeout.RetryDelay(timeout.RetryAfter(io.EOF, -time.Second))
	require.True(t, has)
	require.Zero(t, d)
}

func TestNoDelayIsLongerThanOneThatATopicMayHave(t *testing.T) {
	after, _ := timeout.RetryDelay(timeout.RetryAfter(errors.New("never"), 1<<63-1))
	require.Equal(t, engine.MaxDuration, after)
	for _, cfg := range []timeout.Config{{TTL: 1<<63 - 1}, {Poll: 1<<63 - 1}, {Grace: 1<<63 - 1}, {CircuitWait: engine.MaxDuration + 1}} {
		require.ErrorIs(t, cfg.Validate(), timeout.ErrArgument)
		require.ErrorContains(t, cfg.Validate(), "must be at most 876000h0m0s")
	}
}

func TestAContextCarriesTheTokenOfItsLease(t *testing.T) {
	_, has := timeout.TokenOf(context.Background())
	require.False(t, has)
	outer := timeout.Token{Key: timeout.Key{Topic: "orders", ID: "1"}, Lease: 1, Part: "0"}
	inner := timeout.Token{Key: timeout.Key{Topic: "orders", ID: "2"}, Lease: 2}
	ctx, cancel := context.WithCancel(timeout.WithToken(t.Context(), outer))
	defer cancel()
	token, has := timeout.TokenOf(ctx)
	require.True(t, has)
	require.Equal(t, outer, token)
	token, _ = timeout.TokenOf(timeout.WithToken(ctx, inner))
	require.Equal(t, inner, token, "the innermost lease is the one that runs")
}

func TestPermanentGoesBeforeAccepted(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		r := newRig(t, timeout.Config{})
		require.NoError(t, r.Handle("orders", func(context.Context, timeout.Task) error {
			return errors.Join(timeout.Permanent(io.EOF), timeout.ErrAccepted)
		}))
		r.set("1", 0)
		pass(time.Second)
		require.Equal(t, timeout.Dead, r.state("1").State)
	})
}

// A target asks for patience more often than the task has attempts.
func TestAnUncountedAttemptCostsNone(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		r := newRig(t, timeout.Config{Topic: timeout.Topic{Retries: 1, Retain: time.Hour}})
		var tries atomic.Int64
		require.NoError(t, r.Handle("orders", func(_ context.Context, task timeout.Task) error {
			require.Equal(t, 1, task.Attempts)
			if tries.Add(1) <= 5 {
				return timeout.RetryAfter(timeout.Uncounted(errors.New("too many")), time.Minute)
			}
			return nil
		}))
		r.set("1", 0)
		pass(4*time.Minute + time.Second)
		require.EqualValues(t, 5, tries.Load())
		task := r.state("1")
		require.Equal(t, timeout.Pending, task.State)
		require.Zero(t, task.Attempts)
		require.Zero(t, task.Failures)
		pass(time.Minute)
		require.Equal(t, timeout.Done, r.state("1").State)
		require.Equal(t, 1, r.state("1").Calls)
		require.EqualValues(t, 5, r.stats().Postponed)
		require.Zero(t, r.stats().Failed)
	})
}

func TestAnUncountedAttemptWaitsForTheBackoff(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		r := newRig(t, timeout.Config{Topic: timeout.Topic{Retries: 1, Backoff: time.Hour, BackoffMax: time.Hour}})
		var tries atomic.Int64
		require.NoError(t, r.Handle("orders", func(context.Context, timeout.Task) error { tries.Add(1); return timeout.Uncounted(io.EOF) }))
		r.set("1", 0)
		pass(29 * time.Minute)
		require.EqualValues(t, 1, tries.Load())
		pass(32 * time.Minute)
		require.EqualValues(t, 2, tries.Load())
	})
}
