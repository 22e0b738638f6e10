package wheel

import (
	"syscall"
	"time"
	"unsafe"
)

// What linux/time.h calls CLOCK_MONOTONIC and CLOCK_BOOTTIME. The first stands still
// while the machine is suspended.
const (
	monotonic = 1
	boottime  = 7
)

// asleep returns how long the machine has been suspended since it was booted. A
// process that is stopped between the two readings gets too little, never too much.
//
// It doesn't ask package time, whose clock is another one in a synctest bubble.
func asleep() time.Duration {
	boot, ok := read(boottime)
	awake, ok2 := read(monotonic)
	if !ok || !ok2 {
		return 0
	}
	return boot - awake
}

// read asks a clock of the kernel, of which package syscall has the call but no
// function: 0.3 µs.
func read(clock uintptr) (now time.Duration, ok bool) {
	var ts syscall.Timespec
	_, _, errno := syscall.RawSyscall(syscall.SYS_CLOCK_GETTIME, clock, uintptr(unsafe.Pointer(&ts)), 0)
	return time.Duration(ts.Nano()), errno == 0
}
