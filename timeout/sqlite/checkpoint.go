package sqlite

import (
	"context"
	"fmt"
	"os"
	"time"
)

const (
	easeFirst = 20 * time.Millisecond // pause of ease; it doubles as long as a reader needs the log
	easeMost  = time.Second
)

// logLimit is the greatest length, in bytes, at which the file of the log stays as it is, and at which the writer itself
// moves the log to the database. A longer file is shortened by as much at once: the writer waits meanwhile.
func logLimit() int64 { return 4 * logPages * pageSize }

func (e *Engine) logLength() int64 {
	info, err := os.Stat(e.log)
	if err != nil {
		return 0
	}
	return info.Size()
}

// watchLog is called after each commit. As long as somebody reads, such as a backup, the log can't begin anew, and grows.
// The first commit after that would move all of it to the database, which takes seconds for a gigabyte. So from a certain
// length on another connection does so, without the lock. e.lock must be held.
func (e *Engine) watchLog() {
	if e.easing || e.logLength() <= logLimit() || e.reading == nil || e.setLog(0, logLimit()) != nil {
		return
	}
	e.easing = true
	e.eased.Go(e.ease)
}

// setLog sets the number of pages from which on the writer moves the log, and the length of the file kept when the log begins
// anew. e.lock must be held.
func (e *Engine) setLog(pages, length int64) error {
	_, err := e.conn.ExecContext(context.Background(), fmt.Sprintf("PRAGMA wal_autocheckpoint = %d; PRAGMA journal_size_limit = %d", pages, length))
	return err
}

// ease moves the log to the database, until little of it is left, and then shortens its file.
func (e *Engine) ease() {
	for pause := easeFirst; ; pause = min(2*pause, easeMost) {
		length := e.logLength()
		if left, err := e.moveLog(); err == nil && left <= logPages && e.shorten() {
			return
		}
		if e.logLength() < length {
			pause = easeFirst
		}
		select {
		case <-time.After(pause):
		case <-e.life.Done():
			return
		}
	}
}

// moveLog moves the log to the database as far as no reader needs it, beside the writer. It returns the number of pages that
// are left.
func (e *Engine) moveLog() (left int64, err error) {
	var busy, pages, moved int64
	err = e.reading.QueryRowContext(e.life, "PRAGMA wal_checkpoint(PASSIVE)").Scan(&busy, &pages, &moved)
	return pages - moved, err
}

// shorten shortens the file of the log by a step, and reports whether it is short. The first commit in a log that begins anew
// cuts the file.
func (e *Engine) shorten() (short bool) {
	if e.lock.take(e.life) != nil {
		return false
	}
	defer e.lock.free()
	length := e.logLength()
	if length <= logLimit() && e.setLog(logPages, logLimit()) == nil {
		e.easing = false
		return true
	}
	if e.setLog(0, max(length-logLimit(), logLimit())) == nil {
		_, _ = e.conn.ExecContext(context.Background(), "PRAGMA wal_checkpoint(RESTART)") // the length shows the effect
		_, _ = e.conn.ExecContext(context.Background(), "INSERT OR REPLACE INTO hw_meta (name, value) VALUES ('ready', ?)", now())
	}
	return false
}
