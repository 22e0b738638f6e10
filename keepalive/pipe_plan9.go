package keepalive

// isBrokenPipe reports false: Plan 9 moves no bytes from one connection to another in the kernel.
func isBrokenPipe(error) bool { return false }
