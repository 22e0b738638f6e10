//go:build !linux

package port

import "net"

// Shared says whether each loop has a listener of its own.
const Shared = false

// share gives the port up for gnet.
func share(ln net.Listener) error { return ln.Close() }
