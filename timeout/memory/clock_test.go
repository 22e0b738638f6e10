package memory_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/heartwheel-go/heartwheel/timeout/engine"
	"github.com/heartwheel-go/heartwheel/timeout/enginetest"
	"github.com/heartwheel-go/heartwheel/timeout/memory"
)

func TestBordersOfMinutesYearsAndDaylightSavingMakeNoDifference(t *testing.T) {
	zone, err := time.LoadLocation(enginetest.Zone)
	require.NoError(t, err)
	defer func(local *time.Location) { time.Local = local }(time.Local) //nolint:gosmopolitan // it must make no difference
	time.Local = zone
	synctest.Test(t, func(t *testing.T) {
		enginetest.Borders(t, func(at time.Time) (engine.Engine, func()) {
			time.Sleep(time.Until(at))
			e, err := memory.New(memory.Config{})
			require.NoError(t, err)
			return e, func() { require.NoError(t, e.Close()) }
		})
	})
}
