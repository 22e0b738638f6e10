//go:build unix

package rlimit

import (
	"fmt"
	"math"
	"os"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestOpen(t *testing.T) {
	before := Open()
	require.Positive(t, before)
	f, err := os.Open(os.DevNull)
	require.NoError(t, err)
	defer f.Close()
	require.Equal(t, before+1, Open())
}

func TestRaise(t *testing.T) {
	var before syscall.Rlimit
	require.NoError(t, syscall.Getrlimit(syscall.RLIMIT_NOFILE, &before))
	defer func() { require.NoError(t, syscall.Setrlimit(syscall.RLIMIT_NOFILE, &before)) }()

	lowered := before
	lowered.Cur = 100
	require.NoError(t, syscall.Setrlimit(syscall.RLIMIT_NOFILE, &lowered))
	have, ok := Files()
	require.True(t, ok)
	require.Equal(t, 100, have)

	got, err := Raise(50)
	require.NoError(t, err)
	require.Equal(t, 100, got, "it is never lowered")
	got, err = Raise(120)
	require.NoError(t, err)
	require.Equal(t, 120, got)
	have, _ = Files()
	require.Equal(t, 120, have)

	// More than the system has: as far as it goes, and an error with both.
	got, err = Raise(math.MaxInt)
	if err != nil {
		require.Equal(t, toInt(uint64(before.Max)), got) //nolint:unconvert // signed on some systems
		require.EqualError(t, err, fmt.Sprintf("%d descriptors are needed, and this process may have %d (see ulimit -n)", math.MaxInt, got))
	}
}
