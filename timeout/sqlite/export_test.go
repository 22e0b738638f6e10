package sqlite

// With the race detector SQLite is slow, and the tests need small disks.
func init() { logPages = 128 }
