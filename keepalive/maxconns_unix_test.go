//go:build unix

package keepalive

import (
	"math"
	"os"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestMaxConnsLeavesDescriptorsForTheRest(t *testing.T) {
	var before syscall.Rlimit
	require.NoError(t, syscall.Getrlimit(syscall.RLIMIT_NOFILE, &before))
	defer func() { require.NoError(t, syscall.Setrlimit(syscall.RLIMIT_NOFILE, &before)) }()
	limit := func(n int) {
		lowered := before
		lowered.Cur = 0
		for range n { // its type is another one on each system
			lowered.Cur++
		}
		require.NoError(t, syscall.Setrlimit(syscall.RLIMIT_NOFILE, &lowered))
	}
	limit(1000)
	none, err := MaxConns(0)
	require.NoError(t, err)
	require.Less(t, none, 1000-64)
	require.Greater(t, none, 1000-64-200)
	reserved, err := MaxConns(100)
	require.NoError(t, err)
	require.Equal(t, none-100, reserved)
	f, err := os.Open(os.DevNull)
	require.NoError(t, err)
	defer f.Close()
	opened, err := MaxConns(0)
	require.NoError(t, err)
	require.Equal(t, none-1, opened)

	limit(90)
	_, err = MaxConns(50)
	require.ErrorIs(t, err, ErrArgument)
	require.ErrorContains(t, err, "reserve 50: the process may have 90 descriptors")
	_, err = MaxConns(-1)
	require.ErrorContains(t, err, "reserve -1, must not be negative")
	_, err = MaxConns(math.MaxInt - 10_000)
	require.ErrorIs(t, err, ErrArgument)
}
