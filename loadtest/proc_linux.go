package main

import (
	"bytes"
	"fmt"
	"os"
	"strconv"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// peakBytes returns the largest resident size that a process has had. What the
// kernel says of it after its end (ru_maxrss) would not do: that begins with the
// size of the process by which it was started.
func peakBytes(pid int) int64 {
	peak, _ := bytesIn(fmt.Sprintf("/proc/%d/status", pid), "VmHWM")
	return peak
}

// bytesIn returns what a file of the kernel says in kilobytes of a name.
func bytesIn(file, name string) (n int64, ok bool) {
	b, err := os.ReadFile(file)
	if err != nil {
		return 0, false
	}
	for line := range strings.Lines(string(b)) {
		if _, err := fmt.Sscanf(line, name+": %d kB", &n); err == nil {
			return n << 10, true
		}
	}
	return 0, false
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

// openFiles returns how many descriptors a process has.
func openFiles(pid int) int {
	dir, err := os.Open(fmt.Sprintf("/proc/%d/fd", pid))
	if err != nil {
		return 0
	}
	defer dir.Close()
	names, _ := dir.Readdirnames(-1)
	return len(names)
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

// workInBatches tells the scheduler that this thread, and the processes that it
// starts, would rather do much at once than interrupt those by whom they are woken:
// with both ends on one machine, each heartbeat is otherwise two changes between
// them. It returns what takes that back. The thread must be locked.
func workInBatches() (undo func()) {
	before, err := unix.SchedGetAttr(0, 0)
	if err != nil {
		return func() {}
	}
	after := *before
	after.Policy = unix.SCHED_BATCH
	if unix.SchedSetAttr(0, &after, 0) != nil {
		return func() {}
	}
	return func() { _ = unix.SchedSetAttr(0, before, 0) }
}
