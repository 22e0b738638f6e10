package sqlite

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"sync"
	"time"

	driver "modernc.org/sqlite"
	lib "modernc.org/sqlite/lib"

	"github.com/heartwheel-go/heartwheel/timeout/engine"
)

// logPages is how long the write-ahead log becomes before its pages move to the database. Tests change it.
var logPages int64 = 1000

const (
	pageSize = 4096

	// The pages of a log can all be new in the database, and need room there before the log can begin
	// anew. As much again is for transactions.
	reserveLogs = 2

	reserveSteps = 8 // the parts in which the reserve is given back
)

func reserveSize() int64 { return reserveLogs * logPages * pageSize }

// reserve is a file beside the database that only takes up room. When the disk is full it is cut
// shorter, so that tasks can be leased, finished and removed: that needs room as well. While it is too
// short no task is set. All processes see its length. It is written again when the disk has room.
type reserve struct {
	path string

	mu    sync.Mutex
	short error     // of the last try to fill it
	again time.Time // when the next one may come
}

func (r *reserve) length() int64 {
	info, err := os.Stat(r.path)
	if err != nil {
		return 0
	}
	return info.Size()
}

// fill makes it as long as it should be. After a failure it does nothing for a while, since each try
// writes all that the disk takes.
func (r *reserve) fill() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	before := r.length()
	if before >= reserveSize() {
		return nil
	}
	began := time.Now()
	if began.Before(r.again) {
		return r.short
	}
	err := r.grow(before)
	if err == nil {
		return nil
	}
	r.again = time.Now().Add(max(100*time.Millisecond, 20*time.Since(began)))
	r.short = fmt.Errorf("%w: timeout/sqlite: no task is set before the disk of %s has %d KiB of room: %w", engine.ErrFull, r.path, (reserveSize()-before)>>10, err)
	return r.short
}

// grow writes what no file system can store as nothing.
func (r *reserve) grow(length int64) (err error) {
	file, err := os.OpenFile(r.path, os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, file.Truncate(length))
		}
		err = errors.Join(err, file.Close())
	}()
	var seed [32]byte
	noise, part, all := rand.NewChaCha8(seed), make([]byte, reserveSize()/reserveSteps), reserveSize()
	for at := length; at < all; at += int64(len(part)) {
		_, _ = noise.Read(part) // it can't fail
		if _, err := file.WriteAt(part[:min(int64(len(part)), all-at)], at); err != nil {
			return err
		}
	}
	return file.Sync()
}

// release gives a part of the room back, and reports whether there was any.
func (r *reserve) release() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	length := r.length()
	return length > 0 && os.Truncate(r.path, max(length-reserveSize()/reserveSteps, 0)) == nil
}

// isFull reports whether an error says that there is no room: in the file, on the disk, or for the
// memory that processes share, which is a file, too.
func isFull(err error) bool {
	var failure *driver.Error
	return errors.As(err, &failure) && (failure.Code()&0xff == lib.SQLITE_FULL || failure.Code() == lib.SQLITE_IOERR_SHMSIZE)
}

// room returns an error that wraps engine.ErrFull if no task may be set.
func (e *Engine) room(ctx context.Context) error {
	err := e.reserve.fill()
	if err == nil {
		return nil
	}
	var free int64 // in the file: what was deleted there
	if _, failure := one(ctx, e.reader, "SELECT freelist_count * page_size FROM pragma_freelist_count, pragma_page_size", nil, &free); failure == nil && free >= reserveSize() {
		return nil
	}
	return err
}

// makeRoom is called after failures because of a full disk. What was committed moves from the
// write-ahead log to the database, and the log begins anew. From the second failure in a row on, a part
// of the reserve is given back before. It returns false when nothing is left.
func (e *Engine) makeRoom(ctx context.Context, failures int) bool {
	if failures > 1 && !e.reserve.release() {
		return false
	}
	e.lock <- struct{}{}
	defer func() { <-e.lock }()
	_, _ = one(ctx, e.writer, "PRAGMA wal_checkpoint(RESTART)", nil, new(int), new(int), new(int)) // the next write says whether it helped
	return true
}

// Ready is engine.Engine's: it writes a row. A full disk is engine.ErrFull, though tasks can be leased,
// finished and removed still.
func (e *Engine) Ready(ctx context.Context) error {
	if err := e.enter(ctx); err != nil {
		return err
	}
	defer e.use.RUnlock()
	if err := e.room(ctx); err != nil {
		return err
	}
	return e.wrap("being ready", e.write(ctx, func(s session) error {
		_, err := s.ExecContext(context.Background(), "INSERT OR REPLACE INTO hw_meta (name, value) VALUES ('ready', ?)", now())
		return err
	}))
}
