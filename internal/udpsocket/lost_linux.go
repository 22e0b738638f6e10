package udpsocket

import (
	"unsafe"

	"golang.org/x/sys/unix"
)

// Lost returns how many datagrams a socket has dropped, most often for want of room in its buffer. It
// may wrap around.
func Lost(fd uintptr) uint32 {
	var info [memInfoVars]uint32
	size := uint32(unsafe.Sizeof(info))
	_, _, errno := unix.Syscall6(unix.SYS_GETSOCKOPT, fd, unix.SOL_SOCKET, unix.SO_MEMINFO,
		uintptr(unsafe.Pointer(&info)), uintptr(unsafe.Pointer(&size)), 0)
	if errno != 0 {
		return 0
	}
	return info[memInfoDrops]
}

// Of linux/sock_diag.h. Kernels before 4.12 have no such option.
const (
	memInfoDrops = 8 // SK_MEMINFO_DROPS
	memInfoVars  = 9 // SK_MEMINFO_VARS
)
