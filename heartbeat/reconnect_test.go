package heartbeat

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cenkalti/backoff/v5"
	"github.com/stretchr/testify/require"

	"github.com/heartwheel-go/heartwheel/keepalive"
)

var errOh = errors.New("oh")

// pipes dials, and counts how many connections are open.
type pipes struct{ open, dialed int }

type counted struct {
	net.Conn
	p *pipes
}

func (c counted) Close() error { c.p.open--; return c.Conn.Close() }

func (p *pipes) dial(context.Context) (net.Conn, error) {
	here, _ := net.Pipe()
	p.open++
	p.dialed++
	return counted{here, p}, nil
}

func TestReconnectUntilASessionIsDone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var p pipes
		sessions := 0
		err := Reconnect(t.Context(), Backoff{}, p.dial, func(ctx context.Context, _ net.Conn) error {
			require.Equal(t, 1, p.open, "the one before is closed")
			require.NoError(t, ctx.Err())
			if sessions++; sessions == 5 {
				return nil
			}
			return errOh
		})
		require.NoError(t, err)
		require.Equal(t, 5, sessions)
		require.Equal(t, pipes{open: 0, dialed: 5}, p)
	})
}

// Between nothing and a doubling bound: full jitter.
func TestWaitsHaveFullJitter(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const rounds = 400
		bounds := []int{2, 4, 8, 16, 20, 20} // seconds
		least, most, sum := make([]time.Duration, 6), make([]time.Duration, 6), make([]time.Duration, 6)
		for i := range least {
			least[i] = time.Hour
		}
		for range rounds {
			n, ended := 0, time.Now()
			b := Backoff{First: 2 * time.Second, Max: 20 * time.Second, OnWait: func(err error, wait time.Duration) {
				require.ErrorIs(t, err, errOh)
				least[n], most[n], sum[n] = min(least[n], wait), max(most[n], wait), sum[n]+wait
				ended = time.Now().Add(wait)
				n++
			}}
			require.NoError(t, Reconnect(t.Context(), b, func(context.Context) (net.Conn, error) {
				require.Equal(t, ended, time.Now())
				if n == len(bounds) {
					return new(sink), nil
				}
				return nil, errOh
			}, func(context.Context, net.Conn) error { return nil }))
		}
		for i, seconds := range bounds {
			bound := time.Duration(seconds) * time.Second
			require.LessOrEqual(t, most[i], bound)
			require.Greater(t, most[i], bound*9/10)
			require.Less(t, least[i], bound/10)
			require.InDelta(t, 0.5, float64(sum[i])/rounds/float64(bound), 0.1)
		}
	})
}

// A long-lived connection makes the waits short again, and no other does.
func TestALongSessionBeginsAnew(t *testing.T) {
	for lives, long := range map[time.Duration]bool{29 * time.Second: false, 30 * time.Second: true} {
		synctest.Test(t, func(t *testing.T) {
			var p pipes
			n := 0
			var longest time.Duration
			b := Backoff{First: time.Second, Max: 10 * time.Minute, Steady: 30 * time.Second, OnWait: func(_ error, wait time.Duration) {
				longest = max(longest, wait)
			}}
			require.NoError(t, Reconnect(t.Context(), b, p.dial, func(context.Context, net.Conn) error {
				if n++; n == 50 {
					return nil
				}
				time.Sleep(lives)
				return errOh
			}))
			if long {
				require.LessOrEqual(t, longest, time.Second)
			} else {
				require.Greater(t, longest, time.Minute)
			}
		})
	}
}

func TestReconnectGivesUpWhereItIsPointless(t *testing.T) {
	for _, tt := range []struct {
		err       error
		retryable bool
	}{
		{errOh, true},
		{io.EOF, true},
		{io.ErrUnexpectedEOF, true},
		{os.ErrDeadlineExceeded, true},
		{context.Canceled, true}, // somebody else's context
		{ErrNoAnswer, true},
		{keepalive.ReasonIdle, true},
		{keepalive.ReasonDrain, true},
		{keepalive.ReasonFull, true},
		{keepalive.ReasonTooMany, false},
		{keepalive.ReasonLocal, false},
		{fmt.Errorf("reading: %w", keepalive.ReasonTooSlow), false},
		{&net.OpError{Op: "read", Err: keepalive.ReasonFirstMessage}, false},
		{errors.Join(errOh, keepalive.ReasonTooMany), false},
		{errors.Join(ErrNoAnswer, errOh), true},
		{fmt.Errorf("%w, because of %w", ErrNoAnswer, keepalive.ReasonTooMany), false},
		{backoff.Permanent(errOh), false},
		{fmt.Errorf("dialing: %w", backoff.Permanent(errOh)), false},
		{backoff.RetryAfter(10), true},
	} {
		for _, where := range []string{"dial", "session"} {
			t.Run(where+"/"+tt.err.Error(), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					var p pipes
					tries := 0
					try := func(at string) error {
						if at != where {
							return nil
						}
						if tries++; tries == 3 {
							return backoff.Permanent(io.EOF)
						}
						return tt.err
					}
					err := Reconnect(t.Context(), Backoff{}, func(ctx context.Context) (net.Conn, error) {
						if err := try("dial"); err != nil {
							return nil, err
						}
						return p.dial(ctx)
					}, func(context.Context, net.Conn) error { return try("session") })
					if tt.retryable {
						require.Equal(t, 3, tries)
						require.ErrorIs(t, err, io.EOF)
					} else {
						require.Equal(t, 1, tries)
						require.Equal(t, tt.err, err)
					}
					require.Zero(t, p.open)
				})
			})
		}
	}
}

func TestRetryAfterIsTheLeast(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var p pipes
		n := 0
		require.NoError(t, Reconnect(t.Context(), Backoff{OnWait: func(_ error, wait time.Duration) {
			require.GreaterOrEqual(t, wait, 100*time.Second)
			require.LessOrEqual(t, wait, 116*time.Second)
		}}, p.dial, func(context.Context, net.Conn) error {
			if n++; n == 5 {
				return nil
			}
			return fmt.Errorf("503: %w", backoff.RetryAfter(100))
		}))
	})
}

func TestReconnectEndsWithItsContext(t *testing.T) {
	t.Run("before", func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		var p pipes
		require.Equal(t, context.Canceled, Reconnect(ctx, Backoff{}, p.dial, func(context.Context, net.Conn) error { return nil }))
		require.Zero(t, p.dialed)
	})
	t.Run("dial", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			defer cancel()
			err := Reconnect(ctx, Backoff{}, func(ctx context.Context) (net.Conn, error) {
				<-ctx.Done()
				return nil, errOh
			}, func(context.Context, net.Conn) error { return nil })
			require.ErrorIs(t, err, context.DeadlineExceeded)
			require.ErrorIs(t, err, errOh)
		})
	})
	t.Run("session", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			defer cancel()
			begin := time.Now()
			err := Reconnect(ctx, Backoff{}, func(context.Context) (net.Conn, error) {
				here, _ := net.Pipe()
				return here, nil
			}, func(_ context.Context, conn net.Conn) error {
				_, err := conn.Read(make([]byte, 1)) // knows nothing of contexts
				return err
			})
			require.ErrorIs(t, err, context.DeadlineExceeded)
			require.ErrorIs(t, err, io.ErrClosedPipe)
			require.Equal(t, time.Minute, time.Since(begin))
		})
	})
	t.Run("wait", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			ctx, cancel := context.WithCancelCause(t.Context())
			begin := time.Now()
			err := Reconnect(ctx, Backoff{First: time.Hour, Max: time.Hour, OnWait: func(error, time.Duration) { cancel(io.EOF) }},
				func(context.Context) (net.Conn, error) { return nil, errOh }, func(context.Context, net.Conn) error { return nil })
			require.ErrorIs(t, err, context.Canceled)
			require.ErrorIs(t, err, errOh)
			require.Zero(t, time.Since(begin))
		})
	})
}

func TestASessionThatPanicsLeavesNothingOpen(t *testing.T) {
	var p pipes
	require.Panics(t, func() {
		_ = Reconnect(t.Context(), Backoff{}, p.dial, func(context.Context, net.Conn) error { panic("oh") })
	})
	require.Zero(t, p.open)
}

func TestTheContextOfASessionEndsWithIt(t *testing.T) {
	var p pipes
	var inner context.Context
	require.NoError(t, Reconnect(t.Context(), Backoff{}, p.dial, func(ctx context.Context, _ net.Conn) error {
		inner = ctx
		return nil
	}))
	require.Error(t, inner.Err())
}

func TestWaitsAreLogged(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log strings.Builder
		var p pipes
		n := 0
		require.NoError(t, Reconnect(t.Context(), Backoff{Logger: slog.New(slog.NewTextHandler(&log, nil))}, p.dial,
			func(context.Context, net.Conn) error {
				if n++; n == 2 {
					return nil
				}
				return errOh
			}))
		require.Contains(t, log.String(), "connecting again")
		require.Contains(t, log.String(), "error=oh")
	})
}

func TestImpossibleBackoffs(t *testing.T) {
	var p pipes
	session := func(context.Context, net.Conn) error { return nil }
	for want, b := range map[string]Backoff{
		"First -1ns, must be 0 to 87600h0m0s":     {First: -1},
		"Max -1s, must be 0 to":                   {Max: -time.Second},
		"Steady -1s, must be 0 to":                {Steady: -time.Second},
		"Max 1281023h53m38.427387904s, must be 0": {Max: 1 << 62},
		"First 2s is longer than Max 1s":          {First: 2 * time.Second, Max: time.Second},
		"First 1ns, must be at least 2ns":         {First: 1},
	} {
		err := Reconnect(t.Context(), b, p.dial, session)
		require.ErrorIs(t, err, ErrArgument)
		require.ErrorContains(t, err, want)
	}
	require.ErrorContains(t, Reconnect(t.Context(), Backoff{}, nil, session), "dial or session is nil")
	require.ErrorContains(t, Reconnect(t.Context(), Backoff{}, p.dial, nil), "dial or session is nil")
	require.Zero(t, p.dialed)
	err := Reconnect(t.Context(), Backoff{}, func(context.Context) (net.Conn, error) { return nil, nil }, session)
	require.ErrorIs(t, err, ErrArgument)
	require.ErrorContains(t, err, "neither a connection nor an error")

	for _, b := range []Backoff{{}, {First: time.Hour}, {Max: time.Millisecond}, {First: 2, Max: 2}} {
		require.NoError(t, Reconnect(t.Context(), b, p.dial, session))
	}
}
