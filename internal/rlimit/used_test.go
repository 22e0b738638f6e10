package rlimit

import (
	"math"
	"runtime"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestUsedIsAShareOfTheLimit(t *testing.T) {
	for _, c := range []struct {
		open, limit int
		want        float64
		ok          bool
	}{
		{1, 4, 0.25, true},
		{3, 4, 0.75, true},
		{4, 4, 1, true},
		{5, 4, 1, true}, // the limit was lowered
		{1, 0, 1, true},
		{1, math.MaxInt - 1, 1 / float64(math.MaxInt-1), true},
		{0, 4, 0, false},
		{-1, 4, 0, false}, // Open found not even its own
		{0, 0, 0, false},
		{1, math.MaxInt, 0, false},
	} {
		share, ok := shareOf(c.open, c.limit)
		require.Equal(t, c.ok, ok, "%d of %d", c.open, c.limit)
		require.Equal(t, c.want, share, "%d of %d", c.open, c.limit)
	}
}

func TestUsedIsUnknownWhereNobodyCounts(t *testing.T) {
	share, ok := Used()
	if runtime.GOOS == "linux" || runtime.GOOS == "darwin" {
		require.True(t, ok)
		require.Positive(t, share)
		return
	}
	require.False(t, ok)
	require.Zero(t, share)
}
