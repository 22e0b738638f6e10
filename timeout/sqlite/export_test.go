package sqlite

// ShortLog shortens the log for tests: they need small disks, and SQLite is slow with the race
// detector.
func ShortLog() { logPages = 128 }
