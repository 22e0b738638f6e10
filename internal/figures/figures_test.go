package figures

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestMedian(t *testing.T) {
	v := []float64{3, 1, 2}
	require.InDelta(t, 2, Median(v), 0)
	require.Equal(t, []float64{3, 1, 2}, v)
	require.InDelta(t, 2.5, Median([]float64{4, 1, 3, 2}), 0)
	require.InDelta(t, 7, Median([]float64{7}), 0)
}
