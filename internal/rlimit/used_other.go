//go:build !linux

package rlimit

import "runtime"

// openNow returns the number of open descriptors, or 0 if it is unknown, as on the BSDs: their /dev/fd
// has a fixed set of names, unless fdescfs is mounted there.
func openNow() int {
	if runtime.GOOS == "darwin" {
		return Open()
	}
	return 0
}
