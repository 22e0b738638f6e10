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
	var changed atomic.Int64
	var asking atomic.Int32
	c := newCache(0, eternal, func(context.Context) (int64, bool) {
		require.EqualValues(t, 1, asking.Add(1))
		defer asking.Add(-1)
		return changed.Load(), true
	})
	var all sync.WaitGroup
	for range 8 {
		all.Go(func() {
			for range 200 {
				change := changed.Add(1)
				c.forget()
				got, err := c.get(t.Context())
				require.NoError(t, err)
				require.GreaterOrEqual(t, got, change)
			}
		})
	}
	all.Wait()
}

func TestAnAnswerIsReusedAndAnEndedRequestDoesNotWaitForOne(t *testing.T) {
	number, meanwhile := 0, func() {}
	c := newCache(0, eternal, func(context.Context) (int, bool) {
		meanwhile()
		number++
		return number, true
	})
	for range 3 {
		got, err := c.get(t.Context())
		require.NoError(t, err)
		require.Equal(t, 1, got)
	}
	ctx, cancel := context.WithCancelCause(t.Context())
	meanwhile = func() {
		waiting := make(chan error)
		go func() { _, err := c.get(ctx); waiting <- err }()
		cancel(errBroken)
		require.ErrorIs(t, <-waiting, errBroken)
	}
	c.forget()
	_, err := c.get(t.Context())
	require.NoError(t, err)
	meanwhile = func() { panic(errors.New("x")) }
	c.forget()
	require.Panics(t, func() { _, _ = c.get(t.Context()) })
	meanwhile = func() {}
	got, err := c.get(t.Context())
	require.NoError(t, err)
	require.Equal(t, 3, got)
}
