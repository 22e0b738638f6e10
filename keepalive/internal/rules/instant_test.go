package rules_test

import (
	"math"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/heartwheel-go/heartwheel/keepalive/internal/rules"
)

func TestAddSaturatesAtNever(t *testing.T) {
	for _, c := range []struct {
		at   rules.Time
		d    time.Duration
		want rules.Time
	}{
		{0, 0, 0},
		{0, 1, 1},
		{0, forever, rules.Never},
		{1, forever - 1, rules.Never},
		{1, forever, rules.Never},
		{rules.Never - 1, 1, rules.Never},
		{rules.Never - 1, 2, rules.Never},
		{rules.Never, 0, rules.Never},
		{rules.Never, forever, rules.Never},
		{rules.Never, -1, rules.Never - 1},
		{rules.Unknown, 0, rules.Unknown},
		{rules.Unknown, 1, 0},
		{rules.Unknown, forever, math.MaxInt64 - 1},
		{5, -7, -2},
	} {
		require.Equal(t, c.want, c.at.Add(c.d), "%d+%d", c.at, c.d)
	}
	require.Equal(t, 3*time.Second, at(5).Sub(at(2)))
	require.Equal(t, -3*time.Second, at(2).Sub(at(5)))
}
