//go:build unix

package server

import (
	"syscall"

	"github.com/panjf2000/gnet/v2"
)

// closeWrite ends our side of a connection. It must run in the connection's event
// loop, where the descriptor can not be somebody else's.
func closeWrite(c gnet.Conn) error { return syscall.Shutdown(c.Fd(), syscall.SHUT_WR) }
