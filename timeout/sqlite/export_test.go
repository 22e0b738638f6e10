package sqlite

import (
	"context"
	"testing"
)

// ShortLog shortens the log for tests: they need small disks, and SQLite is slow with the race
// detector.
func ShortLog() { logPages = 128 }

// ShortLogFor is ShortLog for one test.
func ShortLogFor(t *testing.T) {
	before := logPages
	ShortLog()
	t.Cleanup(func() { logPages = before })
}

// LogLimit is the greatest length of the log that the writer moves to the database.
func LogLimit() int64 { return logLimit() }

// WriterMoves reports whether the writer moves the log to the database.
func (e *Engine) WriterMoves(ctx context.Context) (bool, error) {
	e.lock <- struct{}{}
	defer func() { <-e.lock }()
	var pages int64
	err := e.conn.QueryRowContext(ctx, "PRAGMA wal_autocheckpoint").Scan(&pages)
	return pages > 0, err
}
