package api

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"
)

// Whoever changes something and then asks sees the change, also if the engine was asked before it. No two ask at the same time.
func TestNoAnswerIsOlderThanTheLastChange(t *testing.T) {
	c := newCache[int64](0)
	var changed atomic.Int64
	var asking atomic.Int32
	var all sync.WaitGroup
	for range 8 {
		all.Go(func() {
			for range 200 {
				change := changed.Add(1)
				c.forget()
				got, err := c.get(t.Context(), func() (int64, bool) {
					require.EqualValues(t, 1, asking.Add(1))
					defer asking.Add(-1)
					return changed.Load(), true
				})
				require.NoError(t, err)
				require.GreaterOrEqual(t, got, change)
			}
		})
	}
	all.Wait()
}

func TestAnAnswerIsReusedAndAnEndedRequestDoesNotWaitForOne(t *testing.T) {
	c := newCache[int](0)
	number := 0
	take := func() (int, bool) { number++; return number, true }
	for range 3 {
		got, err := c.get(t.Context(), take)
		require.NoError(t, err)
		require.Equal(t, 1, got)
	}
	c.forget()
	ctx, cancel := context.WithCancelCause(t.Context())
	_, err := c.get(t.Context(), func() (int, bool) {
		waiting := make(chan error)
		go func() { _, err := c.get(ctx, take); waiting <- err }()
		cancel(errBroken)
		require.ErrorIs(t, <-waiting, errBroken)
		return take()
	})
	require.NoError(t, err)
	require.Panics(t, func() { c.forget(); _, _ = c.get(t.Context(), func() (int, bool) { panic(errors.New("x")) }) })
	got, err := c.get(t.Context(), take)
	require.NoError(t, err)
	require.Equal(t, 3, got)
}
