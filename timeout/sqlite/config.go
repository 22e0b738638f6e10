package sqlite

import (
	"cmp"
	"context"
	"database/sql"
	"fmt"
	"net/url"
	"path/filepath"
	"runtime"
	"strings"
	"time"

	_ "modernc.org/sqlite" // the driver "sqlite"

	"github.com/heartwheel-go/heartwheel/timeout/engine"
)

const (
	defaultBusy = 10 * time.Second
	readers     = 4
)

// Sync is what a commit waits for.
type Sync int

const (
	// SyncNormal makes a commit wait for the operating system only. The end of the process loses
	// nothing. A power cut loses at most the commits since the last checkpoint.
	SyncNormal Sync = iota

	// SyncFull makes every commit wait for the disk. A power cut loses nothing either.
	SyncFull
)

// Config has the settings of Open. The zero value of each field means the default.
type Config struct {
	// Sync is what a commit waits for. Zero is SyncNormal.
	Sync Sync

	// BusyTimeout is the longest time that a call waits while another process writes. Zero means
	// 10s; less than 1ms is an error.
	BusyTimeout time.Duration

	// NoMigrate makes Open refuse a file whose tables it would have to make or change, with an error wrapping
	// engine.ErrConflict: a process of an operator's makes the changes. See Pending.
	NoMigrate bool
}

func (c Config) check() error {
	if c.Sync != SyncNormal && c.Sync != SyncFull {
		return fmt.Errorf("%w: Sync %d, must be SyncNormal or SyncFull", engine.ErrArgument, c.Sync)
	}
	if c.BusyTimeout < time.Millisecond {
		return fmt.Errorf("%w: BusyTimeout %v, must be at least 1ms", engine.ErrArgument, c.BusyTimeout)
	}
	return nil
}

// Open opens the file. It creates a missing file and missing tables. The error wraps
// engine.ErrArgument if the configuration is invalid, if path does not name a file, or if a newer
// version made the tables.
func Open(path string, cfg Config) (*Engine, error) {
	cfg.BusyTimeout = cmp.Or(cfg.BusyTimeout, defaultBusy)
	if err := cfg.check(); err != nil {
		return nil, err
	}
	if err := checkPath(path); err != nil {
		return nil, err
	}
	if cfg.NoMigrate {
		left, err := Pending(context.Background(), path)
		if err == nil && len(left) > 0 {
			err = fmt.Errorf("%w: tables of %s are of version %d, must be %d, and NoMigrate forbids to change them",
				engine.ErrConflict, path, left[0].Version-1, left[len(left)-1].Version)
		}
		if err != nil {
			return nil, err
		}
	}
	for kept := newReserve(path + "-reserve"); ; {
		e := &Engine{
			cfg: cfg, lock: make(lock, 1), reserve: kept, log: path + "-wal",
			counted: make(map[int64]counted),
		}
		e.life, e.end = context.WithCancel(context.Background())
		err := e.open(path)
		if err == nil {
			_ = kept.fill(context.Background()) // after a failure, Set returns the error
			return e, nil
		}
		e.end()
		_ = e.shut() // only the first error matters
		if !isFull(err) || !kept.release() {
			return nil, e.wrap("opening "+path, err)
		}
	}
}

func checkPath(path string) error {
	if path == "" || strings.HasPrefix(path, ":memory:") || strings.HasPrefix(path, "file:") || strings.ContainsRune(path, 0) {
		return fmt.Errorf("%w: path %q, must be that of a file", engine.ErrArgument, path)
	}
	return nil
}

// open opens the connections. The writer's comes first, because it makes the tables.
func (e *Engine) open(path string) error {
	ctx := context.Background()
	sync := "NORMAL"
	if e.cfg.Sync == SyncFull {
		sync = "FULL"
	}
	var err error
	e.writing, err = sql.Open("sqlite", address(path, "busy_timeout("+fmt.Sprint(firstBusy.Milliseconds())+")",
		"journal_mode(WAL)", "synchronous("+sync+")", "cache_size(-65536)", "temp_store(MEMORY)",
		"wal_autocheckpoint("+fmt.Sprint(logPages)+")", "journal_size_limit("+fmt.Sprint(logLimit())+")"))
	if err != nil {
		return err
	}
	e.writing.SetMaxOpenConns(1)
	err = e.retryWhileBusy(ctx, func() error {
		e.conn, err = e.writing.Conn(ctx)
		return err
	})
	if err != nil {
		return err
	}
	e.writer = &session{on: e.conn}
	if err := e.write(ctx, func(s *session) error { return migrate(ctx, s) }); err != nil {
		return err
	}
	e.reading, err = sql.Open("sqlite", address(path, "busy_timeout("+fmt.Sprint(e.cfg.BusyTimeout.Milliseconds())+")",
		"query_only(1)", "temp_store(MEMORY)", "cache_size(-16384)"))
	if err != nil {
		return err
	}
	e.reading.SetMaxOpenConns(readers)
	e.reading.SetMaxIdleConns(readers)
	e.reader = &session{on: e.reading}
	return nil
}

// address returns the URI of a file. The path may have any characters.
func address(path string, pragmas ...string) string {
	path = filepath.ToSlash(path)
	if runtime.GOOS == "windows" && filepath.VolumeName(path) != "" {
		path = "///" + path
	}
	query := url.Values{"_pragma": pragmas}
	return "file:" + (&url.URL{Path: path}).EscapedPath() + "?" + query.Encode()
}
