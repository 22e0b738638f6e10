//go:build !plan9

package socket

import (
	"errors"
	"syscall"
)

// IsBrokenPipe reports whether a write in the kernel, such as splice, has found the connection closed.
func IsBrokenPipe(err error) bool { return errors.Is(err, syscall.EPIPE) }
