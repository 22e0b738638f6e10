package sqlite

// ShortLog is for tests: with the race detector SQLite is slow, and they need small disks.
func ShortLog() { logPages = 128 }
