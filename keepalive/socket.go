package keepalive

import (
	"errors"
	"net"
	"syscall"
)

// tells reports whether the socket of a connection knows when bytes last arrived. If so, the
// Keeper need not see them all.
func tells(c net.Conn) (yes bool) {
	if !socketsTell {
		return false
	}
	return control(c, func(fd uintptr) { yes = socketTells(fd) }) == nil && yes
}

// control has f look at the socket of a connection, or of the one inside it.
func control(c net.Conn, f func(fd uintptr)) error {
	for range maxLayers {
		switch inner := c.(type) {
		case syscall.Conn:
			raw, err := inner.SyscallConn()
			if err != nil {
				return err
			}
			return raw.Control(f)
		case interface{ NetConn() net.Conn }:
			c = inner.NetConn()
		default:
			return errNoSocket
		}
	}
	return errNoSocket
}

var errNoSocket = errors.New("keepalive: no socket")
