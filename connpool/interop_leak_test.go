//go:build interop

package connpool

import (
	"context"
	"net"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
)

// A user waits for an element of a list that nobody pushes, and has forgotten a deadline.
func TestAUserThatRedisKeepsWaitingIsReportedAndShutdownIsBounded(t *testing.T) {
	addr := redis(t)
	told := make(chan Leak[net.Conn], 10)
	p := newRedisPool(t, addr, Config[net.Conn]{LeakAfter: 200 * ms, OnLeak: func(l Leak[net.Conn]) { told <- l }})
	admin := newRedisPool(t, addr, Config[net.Conn]{})
	var users sync.WaitGroup
	users.Go(func() {
		answer, err := ask(p, "BLPOP empty 0")
		if err != nil || answer != "*2" {
			t.Errorf("%q, %v", answer, err)
		}
	})
	leak := <-told
	require.False(t, leak.Returned)
	require.Contains(t, leak.Stack, "/connpool.ask()")
	require.Equal(t, 1, p.Stats().Leaking)

	ctx, cancel := context.WithTimeout(bg, 300*ms)
	defer cancel()
	err := p.Shutdown(ctx)
	require.ErrorIs(t, err, context.DeadlineExceeded)
	require.ErrorContains(t, err, "with 1 connections in use")

	answer, err := ask(admin, "RPUSH empty 1") // its connection was left alone
	require.NoError(t, err)
	require.Equal(t, ":1", answer)
	require.NoError(t, p.Shutdown(bg))
	leak = <-told
	require.True(t, leak.Returned)
	users.Wait()
	require.Zero(t, p.Stats().Open)
}

// Redis answers nobody for a while. The check is a client's PING without a deadline: it ends when
// its connection is closed under it.
func TestAPingWithoutADeadlineHangsNoGetWhileRedisIsPaused(t *testing.T) {
	addr := redis(t)
	p := newRedisPool(t, addr, Config[net.Conn]{
		MaxOpen: 1, CheckTimeout: 200 * ms,
		Check: func(_ context.Context, c net.Conn) error {
			_, err := command(c, "PING") // for a minute
			return err
		},
	})
	for range 2 {
		answer, err := ask(p, "PING")
		require.NoError(t, err)
		require.Equal(t, "+PONG", answer)
	}
	answer, err := ask(p, "CLIENT PAUSE 60000 ALL")
	require.NoError(t, err)
	require.Equal(t, "+OK", answer)

	l, err := p.Get(bg) // a new one, in the only slot
	require.NoError(t, err)
	require.False(t, l.Reused())
	require.NoError(t, l.Drop())
	require.EqualValues(t, 1, p.Stats().Closed[ReasonCheck])
	require.Eventually(t, func() bool { return p.Stats().Hanging == 0 }, eternal, ms)
}
