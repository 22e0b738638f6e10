package postgres

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/jackc/pgx/v5/pgconn"
	"github.com/stretchr/testify/require"
)

func TestATransactionThatMeetsAnotherOneIsRepeatedAfterARandomPause(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e, conflict := new(Engine), &pgconn.PgError{Code: "40P01"}
		tried := func(ctx context.Context, failure error) (after []time.Duration, err error) {
			began := time.Now()
			err = e.repeat(ctx, "trying", func() error {
				after = append(after, time.Since(began))
				return failure
			})
			return append(after, time.Since(began)), err
		}
		first, err := tried(t.Context(), conflict)
		require.ErrorIs(t, err, conflict)
		require.Len(t, first, conflicts+1)
		for i := range conflicts - 1 {
			require.Greater(t, first[i+1], first[i])
		}
		require.Less(t, first[conflicts], time.Second)
		second, _ := tried(t.Context(), conflict)
		require.NotEqual(t, first, second, "two that have met do not meet again")

		ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond/2)
		defer cancel()
		ended, err := tried(ctx, conflict)
		require.ErrorIs(t, err, context.DeadlineExceeded)
		require.Equal(t, []time.Duration{0, time.Millisecond / 2}, ended, "a pause ends with its call")

		other := errors.New("another failure")
		once, err := tried(t.Context(), other)
		require.ErrorIs(t, err, other)
		require.Equal(t, []time.Duration{0, 0}, once)
	})
}
