package keepalive

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/heartwheel-go/heartwheel/internal/rlimit"
)

// Without a function Used.
func TestDescriptorsThatRunOutArePressure(t *testing.T) {
	var before unix.Rlimit
	require.NoError(t, unix.Getrlimit(unix.RLIMIT_NOFILE, &before))
	low := before
	low.Cur = uint64(rlimit.Open())
	require.NoError(t, unix.Setrlimit(unix.RLIMIT_NOFILE, &low))
	defer func() { require.NoError(t, unix.Setrlimit(unix.RLIMIT_NOFILE, &before)) }()
	synctest.Test(t, func(t *testing.T) {
		k := newKeeper(t, Config{Timeout: time.Minute, Room: Room{Pressure: Pressure{Timeout: 10 * time.Second}}})
		none := newKeeper(t, Config{Timeout: time.Minute})
		begin := time.Now()
		conn, _ := pipe(k)
		other, _ := pipe(none)
		used, ok := rlimit.Used()
		require.True(t, ok)
		if used < 0.9 {
			t.Skipf("somebody has closed descriptors meanwhile: %v are in use", used)
		}
		_, err := conn.Read(make([]byte, 1))
		require.ErrorIs(t, err, ErrIdleTimeout)
		require.Less(t, time.Since(begin), 40*time.Second)
		require.Positive(t, k.Stats().Reduction)
		requireClosed(t, none, other, ReasonIdle, begin, time.Minute)
		require.Zero(t, none.Stats().Reduction)
	})
}
