package memory_test

import (
	"os"
	"os/exec"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/heartwheel-go/heartwheel/timeout/engine"
	"github.com/heartwheel-go/heartwheel/timeout/enginetest"
	"github.com/heartwheel-go/heartwheel/timeout/memory"
)

// The zone is that of the process, so this test runs itself in another one.
func TestBordersOfMinutesYearsAndDaylightSavingMakeNoDifference(t *testing.T) {
	if os.Getenv("TZ") != enginetest.Zone {
		again := exec.Command(os.Args[0], "-test.v", "-test.run", "^"+t.Name()+"$")
		again.Env = append(os.Environ(), "TZ="+enginetest.Zone)
		said, err := again.CombinedOutput()
		require.NoError(t, err, "%s", said)
		require.Contains(t, string(said), "the zone is "+enginetest.Zone)
		return
	}
	_, summer := time.Date(2026, 7, 1, 0, 0, 0, 0, time.Local).Zone() //nolint:gosmopolitan // it must make no difference
	require.Equal(t, -4*60*60, summer)
	t.Log("the zone is", enginetest.Zone)
	synctest.Test(t, func(t *testing.T) {
		enginetest.Borders(t, func(at time.Time) (engine.Engine, func()) {
			time.Sleep(time.Until(at))
			e, err := memory.New(memory.Config{})
			require.NoError(t, err)
			return e, func() { require.NoError(t, e.Close()) }
		})
	})
}
