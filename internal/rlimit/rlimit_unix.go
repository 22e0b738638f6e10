//go:build unix

// Package rlimit reads and raises this process's limit on descriptors.
package rlimit

import (
	"fmt"
	"math"
	"os"
	"syscall"
)

// Files returns this process's limit on descriptors, or ok false without one.
func Files() (limit int, ok bool) {
	var r syscall.Rlimit
	if syscall.Getrlimit(syscall.RLIMIT_NOFILE, &r) != nil {
		return 0, false
	}
	return toInt(uint64(r.Cur)), true //nolint:unconvert // signed on some systems
}

// Open returns the number of open descriptors, or 0 if it is unknown.
func Open() int {
	dir, err := os.Open("/dev/fd")
	if err != nil {
		return 0
	}
	defer dir.Close()
	names, err := dir.Readdirnames(-1)
	if err != nil {
		return 0
	}
	return len(names) - 1 // that of the directory
}

// Raise raises the limit to at least want descriptors if it is lower, and the hard limit if the system
// allows it. It returns the limit in force then. If this is less than want, the error names both
// numbers.
func Raise(want int) (limit int, err error) {
	var r syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &r); err != nil {
		return 0, fmt.Errorf("reading the descriptor limit: %w", err)
	}
	if have := toInt(uint64(r.Cur)); have >= want { //nolint:unconvert // signed on some systems
		return have, nil
	}
	raised := r
	raised.Cur = limitType(want)
	raised.Max = max(r.Max, raised.Cur)
	if syscall.Setrlimit(syscall.RLIMIT_NOFILE, &raised) == nil {
		return want, nil
	}
	// As far as it goes without a privilege.
	raised.Cur, raised.Max = r.Max, r.Max
	if syscall.Setrlimit(syscall.RLIMIT_NOFILE, &raised) != nil {
		raised = r
	}
	have := toInt(uint64(raised.Cur)) //nolint:unconvert // signed on some systems
	if have >= want {
		return have, nil
	}
	return have, fmt.Errorf("%d descriptors are needed, and this process may have %d (see ulimit -n)", want, have)
}

func toInt(n uint64) int { return int(min(n, math.MaxInt)) }
