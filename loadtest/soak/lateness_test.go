package main

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestLatenessOfACanary(t *testing.T) {
	const notable = time.Second
	l := lateness{notable: notable, keep: 10 * notable}
	begin := time.Now()
	at := func(d time.Duration) time.Time { return begin.Add(d) }
	l.send(3, at(0))
	require.Zero(t, l.since(at(0), at(notable-1)))
	require.Equal(t, notable, l.since(at(0), at(notable)), "it is still to be read")
	l.send(3, at(notable)) // another byte behind it
	l.read(3, at(2*notable))
	l.read(3, at(2*notable)) // of nothing that is known
	l.send(3, at(3*notable))
	l.read(3, at(4*notable-1))
	require.Equal(t, 2*notable, l.since(at(notable), at(4*notable)))
	require.Equal(t, 2*notable, l.since(at(2*notable-1), at(4*notable)))
	require.Zero(t, l.since(at(2*notable), at(4*notable)), "that was before")
	require.Equal(t, 2*notable, l.longest)
	l.send(3, at(11*notable))
	l.read(3, at(13*notable))
	require.Len(t, l.delays, 1, "the other one is long over")
}

func TestCanariesAreHeard(t *testing.T) {
	var l lateness
	var running sync.WaitGroup
	ctx, stop := context.WithCancel(t.Context())
	require.NoError(t, l.watch(ctx, &running))
	require.Eventually(t, func() bool {
		l.mu.Lock()
		defer l.mu.Unlock()
		return l.longest > 0
	}, time.Minute, time.Millisecond)
	stop()
	running.Wait()
}
