package wheel

import (
	"syscall"
	"time"
	"unsafe"
)

// CLOCK_MONOTONIC and CLOCK_BOOTTIME of linux/time.h. The first stands still while the
// machine is suspended.
const (
	monotonic = 1
	boottime  = 7
)

// asleep returns how long the machine has been suspended since it was booted. If the
// process is stopped between the two readings, the result is too small, never too large.
//
// It doesn't ask package time: in a synctest bubble package time has another clock.
func asleep() time.Duration {
	boot, ok := read(boottime)
	awake, ok2 := read(monotonic)
	if !ok || !ok2 {
		return 0
	}
	return boot - awake
}

// read asks a clock of the kernel, in 0.3 µs. Package syscall has the call but no function.
func read(clock uintptr) (now time.Duration, ok bool) {
	var ts syscall.Timespec
	_, _, errno := syscall.RawSyscall(syscall.SYS_CLOCK_GETTIME, clock, uintptr(unsafe.Pointer(&ts)), 0)
	return time.Duration(ts.Nano()), errno == 0
}
