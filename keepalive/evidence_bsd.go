//go:build darwin || dragonfly || freebsd || netbsd || openbsd

package keepalive

import "golang.org/x/sys/unix"

// socketsTell reports whether sockets know when bytes last arrived. Here they only know how
// many wait to be read.
const socketsTell = false

// behind is 0: no socket tells.
const behind = 0

// socketTells reports whether a socket knows when bytes last arrived.
func socketTells(uintptr) bool { return socketsTell }

// fionread is FIONREAD of sys/filio.h, _IOR('f', 127, int), missing in x/sys/unix.
const fionread = 0x4004667f

func ask(fd uintptr) evidence {
	e := nothing
	if n, err := unix.IoctlGetInt(int(fd), fionread); err == nil {
		e.unread = n
	}
	return e
}
