//go:build !linux

package port

import "syscall"

// Shared says whether each loop has a listener of its own.
const Shared = false

// share gives the port up for gnet.
func share(c socket) error { return c.Close() }

func deafen(string, string, syscall.RawConn) error { return nil }
