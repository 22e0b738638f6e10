package connpool

import (
	"context"
	"math"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

// A connection put back during the check of another takes its place.
func TestWhatStaysForMinIdleIsNotMoreThanMaxIdle(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p, s := newTestPool(t, Config[*fake]{
			MaxIdleTime: time.Second, MinIdle: 1, MaxIdle: 1, CheckAfter: time.Hour,
			Check: func(context.Context, *fake) error { time.Sleep(time.Second); return nil },
		})
		synctest.Wait()
		pass(1500 * ms)
		require.Equal(t, 1, p.Stats().InUse, "it is being checked")
		getMany(t, p, 1)
		require.Equal(t, 1, p.Stats().Idle)
		pass(700 * ms)
		require.Equal(t, 1, p.Stats().Idle)
		require.Equal(t, ReasonMaxIdle, s.conn(0).why(), "the idlest")
		require.Equal(t, 1, s.openNow())
	})
}

func TestAVeryLongMaxAgeDoesNotOverflow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p, s := newTestPool(t, Config[*fake]{MaxIdleTime: -1, MaxAge: math.MaxInt64 - 1, MaxAgeJitter: -1})
		pass(time.Second)
		getMany(t, p, 1)
		getMany(t, p, 1)
		pass(time.Hour)
		require.Equal(t, 1, s.seen(&s.tries))
		require.Equal(t, 1, p.Stats().Idle)
	})
}

// The server was moved while a dial of the old one hangs.
func TestResetEndsTheDialsThatGoOn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p, s := newTestPool(t, Config[*fake]{MaxOpen: 1})
		s.set(func() { s.latency = time.Hour })
		var took time.Duration
		var err error
		begin := time.Now()
		go func() {
			_, err = p.Get(bg)
			took = time.Since(begin)
		}()
		pass(time.Second)
		s.set(func() { s.latency = 0 })
		p.Reset()
		pass(time.Minute)
		require.NoError(t, err, "of the old server's")
		require.Equal(t, time.Second, took)
	})
}

// It was dialed for MinIdle long ago: the server may have closed it as any other.
func TestWhatWasIdleIsReused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p, _ := newTestPool(t, Config[*fake]{MaxIdleTime: -1, MinIdle: 1})
		pass(time.Hour)
		require.True(t, get(t, p).Reused())
	})
}

func TestADialThatReturnsANilPointerIsAnError(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p, _ := newTestPool(t, Config[*fake]{Dial: func(context.Context) (*fake, error) { return nil, nil }})
		_, err := p.Get(bg)
		require.ErrorContains(t, err, "neither a connection nor an error")
		require.Zero(t, p.Stats().Open)
	})
}
