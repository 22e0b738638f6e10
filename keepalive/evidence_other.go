//go:build !(linux || darwin || dragonfly || freebsd || netbsd || openbsd)

package keepalive

// socketsTell says that a socket knows when bytes last arrived. Here it is not asked.
const socketsTell = false

// behind is how far the clock of sockets that tell can be behind.
const behind = 0

// socketTells reports whether a socket knows when bytes last arrived.
func socketTells(uintptr) bool { return socketsTell }

func ask(uintptr) evidence { return nothing }
