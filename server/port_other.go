//go:build !linux

package server

import "net"

// sharesPorts says that all loops have one listener.
const sharesPorts = false

// sharePort gives the port up, so that gnet can have it.
func sharePort(ln net.Listener) error { return ln.Close() }
