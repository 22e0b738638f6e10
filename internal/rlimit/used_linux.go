package rlimit

import "os"

// openNow returns the number of open descriptors, or 0 if it is unknown.
func openNow() int { return sizeOrOpen("/proc/self/fd") }

// sizeOrOpen returns the size of a directory of descriptors, since Linux 6.2 their number
// (f1f1f2569901). Before, and if /proc is another's work, as gVisor's, the size is 0, and sizeOrOpen
// counts them one by one.
func sizeOrOpen(dir string) int {
	if info, err := os.Stat(dir); err == nil && info.Size() > 0 {
		return int(info.Size())
	}
	return Open()
}
