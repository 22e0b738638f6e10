// Package figures has what reports of measurements need: a median, and numbers as a reader expects
// them.
package figures

import (
	"fmt"
	"slices"
	"strconv"
)

// Median returns the median of v, which must not be empty. It leaves v as it is.
func Median(v []float64) float64 {
	v = slices.Sorted(slices.Values(v))
	return (v[len(v)/2] + v[(len(v)-1)/2]) / 2
}

// Thousands writes a number with a comma after each thousand.
func Thousands(n int) string {
	if n >= 1000 {
		return fmt.Sprintf("%s,%03d", Thousands(n/1000), n%1000)
	}
	return strconv.Itoa(n)
}

// Plural writes a number of things, such as "1 node" or "1,000 nodes".
func Plural(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return Thousands(n) + " " + what + "s"
}
