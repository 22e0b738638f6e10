package rlimit

import "os"

// openNow returns how many descriptors are open, or 0 where that can't be told.
func openNow() int { return sizeOrOpen("/proc/self/fd") }

// sizeOrOpen returns the size of a directory of descriptors, which since Linux 6.2
// is their number (f1f1f2569901). Before, and where /proc is another's work, as
// gVisor's, the size is 0, and they are counted one by one.
func sizeOrOpen(dir string) int {
	if info, err := os.Stat(dir); err == nil && info.Size() > 0 {
		return int(info.Size())
	}
	return Open()
}
