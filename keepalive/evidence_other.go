//go:build !(linux || darwin || dragonfly || freebsd || netbsd || openbsd)

package keepalive

// socketsTell reports whether sockets know when bytes last arrived. Here they are not asked.
const socketsTell = false

// behind is 0: no socket tells.
const behind = 0

// socketTells reports whether a socket knows when bytes last arrived.
func socketTells(uintptr) bool { return socketsTell }

func ask(uintptr) evidence { return nothing }
