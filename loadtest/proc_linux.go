package main

import (
	"bytes"
	"fmt"
	"os"
	"strconv"
	"strings"
	"syscall"
	"time"
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

// residentBytes returns the resident size of a process.
func residentBytes(pid int) int64 {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/statm", pid))
	if err != nil {
		return 0
	}
	fields := strings.Fields(string(b))
	if len(fields) < 2 {
		return 0
	}
	pages, _ := strconv.ParseInt(fields[1], 10, 64)
	return pages * int64(os.Getpagesize())
}

// userHz is the unit of processor times in /proc, which is the same on all
// architectures that Go knows.
const userHz = 100

// processorTime returns what a process has used.
func processorTime(pid int) time.Duration {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return 0
	}
	const utime, stime = 11, 12 // after the name, which may have anything in it
	fields := bytes.Fields(b[bytes.LastIndexByte(b, ')')+1:])
	if len(fields) <= stime {
		return 0
	}
	return jiffies(string(fields[utime])) + jiffies(string(fields[stime]))
}

// busyTime returns what all processors together have worked.
func busyTime() time.Duration {
	b, err := os.ReadFile("/proc/stat")
	if err != nil {
		return 0
	}
	first, _, _ := strings.Cut(string(b), "\n")
	const idle, iowait, guest = 4, 5, 9 // guest is in user
	var busy time.Duration
	for i, field := range strings.Fields(first) {
		if i > 0 && i != idle && i != iowait && i < guest {
			busy += jiffies(field)
		}
	}
	return busy
}

func jiffies(s string) time.Duration {
	n, _ := strconv.ParseInt(s, 10, 64)
	return time.Duration(n) * time.Second / userHz
}

// dieWithParent lets a process that is started end with the thread that starts
// it, however that ends.
func dieWithParent() *syscall.SysProcAttr { return &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL} }
