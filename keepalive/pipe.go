//go:build !plan9

package keepalive

import (
	"errors"
	"syscall"
)

// isBrokenPipe reports whether a write in the kernel, such as splice, has found the connection closed.
func isBrokenPipe(err error) bool { return errors.Is(err, syscall.EPIPE) }
