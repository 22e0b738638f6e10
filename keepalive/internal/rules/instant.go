package rules

import (
	"math"
	"time"
)

// Time is an instant: how long the Keeper has been running by then, less all stalls. So
// the time of a stopped process counts in no policy.
type Time int64

const (
	// Never is later than anything happens.
	Never Time = math.MaxInt64

	// Unknown stands for an instant if nobody can tell it.
	Unknown Time = -1
)

// Add returns t+d, or Never beyond the end of time.
func (t Time) Add(d time.Duration) Time {
	if t > 0 && d > time.Duration(Never-t) {
		return Never
	}
	return t + Time(d)
}

// Sub returns t-u.
func (t Time) Sub(u Time) time.Duration { return time.Duration(t - u) }

// Saturated returns a duration of so many nanoseconds, or the longest one there is.
func Saturated(ns float64) time.Duration {
	if ns >= math.MaxInt64 {
		return math.MaxInt64
	}
	return time.Duration(ns)
}
