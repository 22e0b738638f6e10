// Package stats has what the reports of measurements need.
package stats

import "slices"

// Median returns the median of v, of which there must be some. It leaves v as it is.
func Median(v []float64) float64 {
	v = slices.Sorted(slices.Values(v))
	return (v[len(v)/2] + v[(len(v)-1)/2]) / 2
}
