package socket

import (
	"unsafe"

	"golang.org/x/sys/windows"
)

// fionread is FIONREAD of winsock2.h, _IOR('f', 127, u_long), missing in x/sys/windows.
const fionread = 0x4004667f

// Unread returns how many bytes wait in a socket, or 0 if it does not tell.
func Unread(fd uintptr) int {
	var n, size uint32
	err := windows.WSAIoctl(windows.Handle(fd), fionread, nil, 0,
		(*byte)(unsafe.Pointer(&n)), uint32(unsafe.Sizeof(n)), &size, nil, 0)
	if err != nil {
		return 0
	}
	return int(n)
}

// ReceiveBuffer returns how many bytes the receive queue of a socket takes at least, or 0 if it does not tell.
func ReceiveBuffer(fd uintptr) int {
	size, err := windows.GetsockoptInt(windows.Handle(fd), windows.SOL_SOCKET, windows.SO_RCVBUF)
	if err != nil {
		return 0
	}
	return size
}
