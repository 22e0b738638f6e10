package keepalive

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

// Neither after the last connection has gone, nor after the policy was taken back.
func TestPressureThatHasGoneIsNotReported(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		used := 0.9
		k := newKeeper(t, Config{
			Timeout: 10 * time.Second,
			Room:    Room{Pressure: Pressure{Timeout: 5 * time.Second, Used: func() float64 { return used }}},
		})
		pipe(k)
		time.Sleep(20 * time.Second)
		require.Zero(t, k.Len())
		require.InDelta(t, 0.5, k.Stats().Reduction, 1e-9)
		used = 0
		time.Sleep(2 * time.Second)
		require.Zero(t, k.Stats().Reduction)

		used = 1
		time.Sleep(2 * time.Second)
		require.InDelta(t, 1, k.Stats().Reduction, 1e-9)
		cfg := k.Config()
		cfg.Room.Pressure.Used, cfg.Room.Pressure.Timeout = nil, 0
		require.NoError(t, k.Update(cfg))
		require.Zero(t, k.Stats().Reduction)
	})
}
