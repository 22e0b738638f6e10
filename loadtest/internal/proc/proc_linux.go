package proc

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

// PeakBytes returns the largest resident size of a process so far. The kernel's figure after its end
// (ru_maxrss) would not do: it begins with the size of the parent.
func PeakBytes(pid int) int64 {
	peak, _ := BytesIn(fmt.Sprintf("/proc/%d/status", pid), "VmHWM")
	return peak
}

// BytesIn returns the value of a name in a file of the kernel, such as /proc/meminfo, in bytes.
func BytesIn(file, name string) (n int64, ok bool) {
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

// ResidentBytes returns the resident size of a process.
func ResidentBytes(pid int) int64 {
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

// OpenFiles returns the number of a process's open descriptors.
func OpenFiles(pid int) int {
	dir, err := os.Open(fmt.Sprintf("/proc/%d/fd", pid))
	if err != nil {
		return 0
	}
	defer dir.Close()
	names, _ := dir.Readdirnames(-1)
	return len(names)
}

// userHz is the unit of processor times in /proc, the same on all architectures of Go.
const userHz = 100

// ProcessorTime returns the processor time of a process so far.
func ProcessorTime(pid int) time.Duration {
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

// BusyTime returns the working time of all processors together.
func BusyTime() time.Duration {
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
	return time.Duration(n) * (time.Second / userHz)
}

// DieWithParent has a process end with its parent thread, however that ends.
func DieWithParent() *syscall.SysProcAttr { return &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL} }

// WorkInBatches asks the scheduler to let this thread and its child processes do much at once, instead
// of interrupting whoever wakes them. Otherwise each heartbeat is two changes between both ends of a
// connection on one machine, a tenth to a quarter of the processor time. undo takes it back. The thread
// must be locked.
func WorkInBatches() (undo func()) {
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
