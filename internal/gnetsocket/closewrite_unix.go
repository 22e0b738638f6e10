//go:build unix

package gnetsocket

import (
	"syscall"

	"github.com/panjf2000/gnet/v2"
)

// CloseWrite ends our side of a connection. It must run in the connection's event
// loop: there the descriptor can not be somebody else's.
func CloseWrite(c gnet.Conn) error { return syscall.Shutdown(c.Fd(), syscall.SHUT_WR) }
