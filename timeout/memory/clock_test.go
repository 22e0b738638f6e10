package memory_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/heartwheel-go/heartwheel/timeout"
	"github.com/heartwheel-go/heartwheel/timeout/enginetest"
	"github.com/heartwheel-go/heartwheel/timeout/memory"
)

func TestBordersOfMinutesYearsAndDaylightSavingMakeNoDifference(t *testing.T) {
	zone, err := time.LoadLocation(enginetest.Zone)
	require.NoError(t, err)
	defer func(local *time.Location) { time.Local = local }(time.Local) //nolint:gosmopolitan // it must make no difference
	time.Local = zone
	synctest.Test(t, func(t *testing.T) {
		enginetest.Borders(t, func(at time.Time) (timeout.Engine, func()) {
			time.Sleep(time.Until(at))
			engine, err := memory.New(memory.Config{})
			require.NoError(t, err)
			return engine, func() { require.NoError(t, engine.Close()) }
		})
	})
}
