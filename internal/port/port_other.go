//go:build !linux

package port

import "net"

// Shared says that all loops have one listener.
const Shared = false

// share gives the port up, so that gnet can have it.
func share(ln net.Listener) error { return ln.Close() }
