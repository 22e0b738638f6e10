package keepalive

import (
	"testing"
	"testing/synctest"
	"time"
	"unsafe"

	"github.com/stretchr/testify/require"
)

// These are sizes of the allocator's: a byte more in one, and each connection pays 16.
func TestSizesOfAConnection(t *testing.T) {
	if unsafe.Sizeof(uintptr(0)) != 8 {
		t.Skip("sizes of a machine of 64 bits")
	}
	require.LessOrEqual(t, unsafe.Sizeof(Guard{}), uintptr(160))
	require.LessOrEqual(t, unsafe.Sizeof(rare{}), uintptr(160))
	require.LessOrEqual(t, unsafe.Sizeof(extras{}), uintptr(112))
	require.LessOrEqual(t, unsafe.Sizeof(member{}), uintptr(64))
}

// Go's heap keeps as much room for garbage as there is memory in use, so what an opening leaves behind costs memory for as
// long as there are connections.
func TestOpeningAConnectionMakesNoGarbage(t *testing.T) {
	k := newKeeper(t, Config{})
	var conn bound
	open := testing.AllocsPerRun(1000, func() {
		require.NoError(t, conn.open(k))
		conn.close()
	})
	require.LessOrEqual(t, open, 2.0, "the guard, and a function for the adapter")
	require.Zero(t, testing.AllocsPerRun(1000, func() {
		conn.guard.open(k.policy.Load())
	}))
}

// With a timeout alone, a living connection needs no second struct, with any Activity. Nor does
// one that was asked about.
func TestAConnectionWithATimeoutAloneHasNoMore(t *testing.T) {
	for _, activity := range []Activity{ActivityRead, ActivityReadWrite, ActivityManual} {
		synctest.Test(t, func(t *testing.T) {
			k := newKeeper(t, Config{Timeout: time.Second, Activity: activity})
			time.Sleep(time.Second) // an instant of the wheel's that is not zero
			c, _ := pipe(k)
			for range 100 {
				time.Sleep(500 * time.Millisecond)
				require.True(t, Touch(c))
				_, known := Of(c).Info()
				require.True(t, known)
			}
			require.Nil(t, Of(c).rare.Load(), activity)
		})
	}
}
