package sqlite

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"runtime"
	"syscall"
	"time"

	driver "modernc.org/sqlite"
	lib "modernc.org/sqlite/lib"

	"github.com/heartwheel-go/heartwheel/timeout/engine"
)

// logPages is the length of the write-ahead log at which its pages move to the database. Tests
// change it.
var logPages int64 = 1000

const (
	pageSize = 4096

	// All pages of a log can be new in the database. They need room there before the log can
	// begin anew. As much again is for transactions.
	reserveLogs = 2

	reserveSteps = 8 // number of steps in which the engine gives the reserve back
)

// reserveSize is the length of the reserve, in bytes.
func reserveSize() int64 { return reserveLogs * logPages * pageSize }

func reserveStep() int64 { return reserveSize() / reserveSteps }

// reserve is a file beside the database. It only takes up room. On a full disk the engine
// shortens it, because leasing, finishing and removing tasks need room as well. While the reserve
// is too short, Set refuses tasks. All processes see its length. The engine fills it again when
// the disk has room.
type reserve struct {
	path string

	lock  lock      // held while the file is changed and the fields below are used
	short error     // error of the last try to fill the file
	again time.Time // earliest start of the next try
}

func newReserve(path string) *reserve { return &reserve{path: path, lock: make(lock, 1)} }

// length returns the length of the file in bytes. It is zero if the file is missing or can't be
// seen.
func (r *reserve) length() int64 {
	info, err := os.Stat(r.path)
	if err != nil || !info.Mode().IsRegular() {
		return 0
	}
	return info.Size()
}

// fill gives the reserve its full length. After a failure it does nothing for a while, because
// each try writes until the disk is full. The error wraps engine.ErrFull if the disk has no room.
func (r *reserve) fill(ctx context.Context) error {
	if err := r.lock.take(ctx); err != nil {
		return err
	}
	defer r.lock.free()
	before := r.length()
	if before >= reserveSize() {
		return nil
	}
	began := time.Now()
	if began.Before(r.again) {
		return r.short
	}
	err := r.grow(ctx, before)
	if err == nil || ctx.Err() != nil {
		return err
	}
	r.again = time.Now().Add(max(100*time.Millisecond, 20*time.Since(began)))
	r.short = fmt.Errorf("writing the reserve for a full disk: %w", err)
	if noRoom(err) {
		r.short = fmt.Errorf("%w: timeout/sqlite: no task is set before the disk of %s has %d KiB of room: %w",
			engine.ErrFull, r.path, (reserveSize()+reserveStep()-before)>>10, err)
	}
	return r.short
}

// noRoom reports whether the operating system refuses to write because the disk or the user's
// quota is full.
func noRoom(err error) bool {
	const handleDiskFull, diskFull = syscall.Errno(39), syscall.Errno(112) // on Windows
	return errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT) ||
		runtime.GOOS == "windows" && (errors.Is(err, handleDiskFull) || errors.Is(err, diskFull))
}

// grow writes noise, because a file system may store zeros as nothing. It also writes one step
// more, and gives it back. So the disk has room for more than the reserve, and the next
// transaction does not find it full again.
func (r *reserve) grow(ctx context.Context, length int64) (err error) {
	file, err := os.OpenFile(r.path, os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	all := length
	defer func() { err = errors.Join(err, file.Truncate(all), file.Close()) }()
	var seed [32]byte
	noise, part, end := rand.NewChaCha8(seed), make([]byte, reserveStep()), reserveSize()+reserveStep()
	for at := length; at < end; at += int64(len(part)) {
		if err := ctx.Err(); err != nil {
			return err
		}
		_, _ = noise.Read(part) // it can't fail
		if _, err := file.WriteAt(part[:min(int64(len(part)), end-at)], at); err != nil {
			return err
		}
	}
	if err := file.Sync(); err != nil {
		return err
	}
	all = reserveSize()
	return nil
}

// release shortens the reserve by a step, and reports whether it did.
func (r *reserve) release() bool {
	_ = r.lock.take(context.Background())
	defer r.lock.free()
	length := r.length()
	return length > 0 && os.Truncate(r.path, max(length-reserveStep(), 0)) == nil
}

// isFull reports whether an error means that there is no room: in the file, on the disk, or for
// the memory shared by processes. That memory is a file, too.
func isFull(err error) bool {
	var failure *driver.Error
	return errors.As(err, &failure) && (failure.Code()&0xff == lib.SQLITE_FULL || failure.Code() == lib.SQLITE_IOERR_SHMSIZE)
}

// room returns an error if no task may be added. The error wraps engine.ErrFull if the disk has
// no room and the file has none to reuse.
func (e *Engine) room(ctx context.Context) error {
	err := e.reserve.fill(ctx)
	if errors.Is(err, engine.ErrFull) && e.reusable(ctx) {
		return nil
	}
	return err
}

// reusable reports whether deleted rows have left enough room in the file.
func (e *Engine) reusable(ctx context.Context) bool {
	var free int64
	_, err := one(ctx, e.reader, "SELECT freelist_count * page_size FROM pragma_freelist_count, pragma_page_size", nil, &free)
	return err == nil && free >= reserveSize()
}

// makeRoom is called after each failure on a full disk. It moves all commits from the write-ahead
// log to the database, so the log begins anew. From the second failure in a row on, it first
// shortens the reserve by a step. It returns false if the reserve is used up.
func (e *Engine) makeRoom(ctx context.Context, failures int) bool {
	if failures > 1 && !e.reserve.release() {
		return false
	}
	_ = e.lock.take(context.Background())
	defer e.lock.free()
	_, _ = one(ctx, e.writer, "PRAGMA wal_checkpoint(RESTART)", nil, new(int), new(int), new(int)) // the next write shows its effect
	return true
}

// Ready implements engine.Engine. It writes a row in the same way as Set. So on a full disk it
// returns engine.ErrFull, though tasks can still be leased, finished and removed.
func (e *Engine) Ready(ctx context.Context) error {
	_, err := call(ctx, e, "being ready", func() (sql.Result, error) {
		return within(ctx, e.add, func(ctx context.Context, s *session) (sql.Result, error) {
			return s.ExecContext(ctx, "INSERT OR REPLACE INTO hw_meta (name, value) VALUES ('ready', ?)", now())
		})
	})
	return err
}
