package rlimit

import "math"

// Used returns how much of this process's limit on descriptors is in use: 0 none, 1 all, also if the
// limit is now below the number in use. It reports false if one of the two is unknown, as on all
// systems but Linux and macOS, and without a limit. It doesn't look at the limit of the whole system
// (ENFILE), although the process may reach it first.
//
// On Linux since 6.2 a call takes 3 us and two allocations, with 10 descriptors as with 10,000: the
// kernel adds up a bit for each. Before, and on macOS, it reads the name of each: 0.4 us for one, 4 ms
// for 10,000 (go test -bench Used, an AMD EPYC). It may be called by several goroutines at the same
// time.
func Used() (share float64, ok bool) {
	limit, ok := Files()
	if !ok {
		return 0, false
	}
	return shareOf(openNow(), limit)
}

// shareOf is Used for known figures: open is 0 if it is unknown, and limit is math.MaxInt without a
// limit.
func shareOf(open, limit int) (share float64, ok bool) {
	if open <= 0 || limit == math.MaxInt {
		return 0, false
	}
	if open >= limit {
		return 1, true
	}
	return float64(open) / float64(limit), true
}
