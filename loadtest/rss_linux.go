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
		return usage.Maxrss * kilobyte
	}
	return 0
}
