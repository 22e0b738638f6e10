package sharded_test

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/heartwheel-go/heartwheel/timeout/engine"
)

// hushed is a shard with a switch for hearing.
type hushed struct {
	engine.Engine
	hears chan struct{}
}

func (s hushed) Wake(ctx context.Context, wake func(topic string), _ func(key engine.Key)) error {
	wake("early")
	for {
		select {
		case <-s.hears:
			wake("")
		case <-ctx.Done():
			return nil
		}
	}
}

func TestShardsHearWhenEachOfThemDoes(t *testing.T) {
	a, b := hushed{inMemory(t), make(chan struct{})}, hushed{inMemory(t), make(chan struct{})}
	e := over(t, a, b)
	ctx, cancel := context.WithCancel(t.Context())
	told := make(chan string, 10)
	ended := make(chan error, 1)
	go func() { ended <- e.(engine.Waker).Wake(ctx, func(topic string) { told <- topic }, func(engine.Key) {}) }()
	for range 2 {
		require.Equal(t, "early", <-told)
	}
	a.hears <- struct{}{}
	a.hears <- struct{}{} // so the first one was told
	require.Empty(t, told)
	b.hears <- struct{}{}
	require.Empty(t, <-told)
	a.hears <- struct{}{}
	require.Empty(t, <-told, "one of them has listened again")
	cancel()
	require.NoError(t, <-ended)
}
