package socket

// IsBrokenPipe reports false: Plan 9 moves no bytes from one connection to another in the kernel.
func IsBrokenPipe(error) bool { return false }
