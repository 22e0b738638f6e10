package keepalive

import (
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// An adapter may be loaded while others are at work.
func TestOfWhileAFinderIsAdded(t *testing.T) {
	before := finders.Load()
	defer finders.Store(before)
	var looking sync.WaitGroup
	looking.Go(func() {
		for range 100 {
			Of(t)
		}
	})
	for range 10 {
		addFinder(func(any) *Guard { return nil })
	}
	looking.Wait()
}

// foreign is a connection of another framework, without a place for a guard.
type foreign struct{ g *Guard }

func TestOfFindsGuards(t *testing.T) {
	before := finders.Load()
	defer finders.Store(before)
	finders.Store(nil)
	k := newKeeper(t, Config{Rate: Rate{MinBeat: time.Second}})
	g, err := guardOf(k, nil)
	require.NoError(t, err)
	require.Nil(t, Of(foreign{g}), "nobody knows it yet")
	addFinder(func(conn any) *Guard {
		if c, ok := conn.(foreign); ok {
			return c.g
		}
		return nil
	})
	addFinder(func(any) *Guard { return nil })
	require.Same(t, g, Of(foreign{g}))
	require.Same(t, g, Of(g))
	for _, conn := range []any{foreign{}, foreign{new(Guard)}, new(Guard), (*Guard)(nil), 7, nil} {
		require.Nil(t, Of(conn))
		require.False(t, Touch(conn))
	}
	for beats, conn := range []any{g, foreign{g}, &fakeLoopConn{ctx: g}} {
		require.True(t, Touch(conn))
		require.EqualValues(t, beats+1, g.more.Load().beats.Load())
	}
}
