//go:build darwin || dragonfly || freebsd || netbsd || openbsd

package keepalive

import "golang.org/x/sys/unix"

// socketsTell says that a socket knows when bytes last arrived. Here it only knows how many
// wait to be read.
const socketsTell = false

// behind is how far the clock of sockets that tell can be behind.
const behind = 0

// socketTells reports whether a socket knows when bytes last arrived.
func socketTells(uintptr) bool { return socketsTell }

// fionread is FIONREAD of sys/filio.h, _IOR('f', 127, int), which x/sys/unix does not have.
const fionread = 0x4004667f

func ask(fd uintptr) evidence {
	e := nothing
	if n, err := unix.IoctlGetInt(int(fd), fionread); err == nil {
		e.unread = n
	}
	return e
}
