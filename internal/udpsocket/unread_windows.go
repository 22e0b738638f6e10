package udpsocket

import (
	"unsafe"

	"golang.org/x/sys/windows"
)

// poll is WSAPoll of winsock2.h, missing in x/sys/windows.
var poll = windows.NewLazySystemDLL("ws2_32.dll").NewProc("WSAPoll")

// pollFd is WSAPOLLFD.
type pollFd struct {
	fd              windows.Handle
	events, revents int16
}

// pollIn is POLLRDNORM.
const pollIn = 0x100

// Unread returns 0 if no datagram waits in a socket, and otherwise Plenty. A socket in error can be read
// at once, so it counts as one with datagrams.
func Unread(fd uintptr) int {
	fds := pollFd{fd: windows.Handle(fd), events: pollIn}
	if n, _, _ := poll.Call(uintptr(unsafe.Pointer(&fds)), 1, 0); n == 0 {
		return 0
	}
	return Plenty
}
