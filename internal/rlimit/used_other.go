//go:build !linux

package rlimit

import "runtime"

// openNow returns how many descriptors are open, or 0 where that can't be told. Of
// the BSDs it can't: their /dev/fd has a fixed set of names, unless fdescfs is
// mounted there.
func openNow() int {
	if runtime.GOOS == "darwin" {
		return Open()
	}
	return 0
}
