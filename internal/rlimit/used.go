package rlimit

import "math"

// Used returns how much of this process's limit on descriptors is in use: 0 none, 1
// all, also where the limit has been lowered below what is open. It reports false
// where one of the two is not known, which is everywhere but on Linux and macOS, and
// where there is no limit. It doesn't look at that of the whole system (ENFILE),
// which may be reached first.
//
// On Linux since 6.2 a call takes 3 us and two allocations, with 10 descriptors as
// with 10,000: the kernel adds up a bit for each. Before, and on macOS, it reads the
// name of each: 0.4 us for one, 4 ms for 10,000 (go test -bench Used, an AMD EPYC).
// It may be called by several goroutines at the same time.
func Used() (share float64, ok bool) {
	limit, ok := Files()
	if !ok {
		return 0, false
	}
	return shareOf(openNow(), limit)
}

// shareOf is Used for figures that have been read: open is 0 where it is not known,
// and limit is math.MaxInt where there is none.
func shareOf(open, limit int) (share float64, ok bool) {
	if open <= 0 || limit == math.MaxInt {
		return 0, false
	}
	if open >= limit {
		return 1, true
	}
	return float64(open) / float64(limit), true
}
