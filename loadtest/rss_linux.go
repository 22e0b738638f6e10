package main

import (
	"os"
	"syscall"
)

// peakRSS returns the largest resident size of a process that has ended, in
// bytes.
func peakRSS(state *os.ProcessState) int64 {
	const kilobyte = 1024
	if usage, ok := state.SysUsage().(*syscall.Rusage); ok {
		return int64(usage.Maxrss) * kilobyte //nolint:unconvert // 32 bits on some systems
	}
	return 0
}
