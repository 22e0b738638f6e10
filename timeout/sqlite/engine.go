package sqlite

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"modernc.org/sqlite"
	lib "modernc.org/sqlite/lib"

	"github.com/heartwheel-go/heartwheel/timeout"
	"github.com/heartwheel-go/heartwheel/timeout/internal/sqlkit"
)

// Engine keeps tasks in a file: see the package's comment, and timeout.Engine for its methods.
// It is a timeout.Log and a timeout.Truth, too.
type Engine struct {
	db    *sql.DB
	cfg   Config
	names *strings.Replacer // of tables

	writer  chan *session // has one element while nobody writes
	readers chan *session // those that nobody uses

	// closing ends waits for sessions. Close takes all sessions, and so waits for calls.
	closing chan struct{}
	close   sync.Once
	opened  int // sessions
	failure error

	count sqlkit.Counter
}

var (
	_ timeout.Truth = (*Engine)(nil)
	_ timeout.Log   = (*Engine)(nil)
)

func newEngine(db *sql.DB, cfg Config) *Engine {
	return &Engine{
		db:      db,
		cfg:     cfg,
		names:   strings.NewReplacer("{", cfg.Prefix, "}", ""),
		writer:  make(chan *session, 1),
		readers: make(chan *session, cfg.Readers),
		closing: make(chan struct{}),
	}
}

// start opens the sessions. The first one makes the tables.
func (e *Engine) start(ctx context.Context) error {
	e.db.SetMaxOpenConns(0)
	writer, err := e.connect(ctx)
	if err != nil {
		return err
	}
	e.writer <- writer
	if err := e.migrate(ctx); err != nil {
		return err
	}
	for range e.cfg.Readers {
		reader, err := e.connect(ctx)
		if err != nil {
			return err
		}
		e.readers <- reader
	}
	return nil
}

func (e *Engine) connect(ctx context.Context) (*session, error) {
	conn, err := e.db.Conn(ctx)
	if err != nil {
		return nil, e.wrap(err)
	}
	e.opened++
	return &session{names: e.names, prepare: conn.PrepareContext, conn: conn, kept: make(map[string]*sql.Stmt)}, nil
}

// write does something in a transaction that nobody else writes beside. When it has begun
// it goes on even if ctx ends: it is short, and so its answer is known.
func (e *Engine) write(ctx context.Context, do func(*session) error) error {
	s, err := e.take(ctx, e.writer)
	if err != nil {
		return err
	}
	defer func() { e.writer <- s }()
	for {
		err := s.begin("BEGIN IMMEDIATE")
		if err == nil {
			break
		}
		if !isBusy(err) {
			return e.wrap(err)
		}
		if ctx.Err() != nil { // another process writes all the time
			return fmt.Errorf("timeout/sqlite: waiting for another process to write: %w", context.Cause(ctx))
		}
	}
	return e.wrap(s.end(do(s)))
}

// read does something that sees the file at one moment.
func (e *Engine) read(ctx context.Context, do func(*session) error) error {
	s, err := e.take(ctx, e.readers)
	if err != nil {
		return err
	}
	defer func() { e.readers <- s }()
	if err := s.begin("BEGIN"); err != nil {
		return e.wrap(err)
	}
	return e.wrap(s.end(do(s)))
}

func (e *Engine) take(ctx context.Context, from chan *session) (*session, error) {
	select { // which of several is chosen is random: a closed engine must not be used
	case <-e.closing:
		return nil, timeout.ErrClosed
	default:
	}
	if err := context.Cause(ctx); err != nil {
		return nil, err
	}
	select {
	case s := <-from:
		return s, nil
	case <-e.closing:
		return nil, timeout.ErrClosed
	case <-ctx.Done():
		return nil, fmt.Errorf("timeout/sqlite: waiting for the file: %w", context.Cause(ctx))
	}
}

// Now returns this machine's clock.
func (e *Engine) Now(ctx context.Context) (time.Time, error) {
	select {
	case <-e.closing:
		return time.Time{}, timeout.ErrClosed
	default:
		return time.UnixMilli(clock()), context.Cause(ctx)
	}
}

func clock() int64 { return time.Now().UnixMilli() }

// Close waits for calls that are under way, and closes the file. It is idempotent.
func (e *Engine) Close() error {
	e.close.Do(func() {
		close(e.closing)
		for range e.opened {
			select {
			case s := <-e.writer:
				s.close()
			case s := <-e.readers:
				s.close()
			}
		}
		if err := e.db.Close(); err != nil {
			e.failure = fmt.Errorf("timeout/sqlite: closing the file: %w", err)
		}
	})
	return e.failure
}

// wrap has errors of SQLite say what they mean here.
func (e *Engine) wrap(err error) error {
	var failure *sqlite.Error
	if !errors.As(err, &failure) {
		return err
	}
	if failure.Code()&0xff == lib.SQLITE_FULL {
		return fmt.Errorf("%w: %w", timeout.ErrFull, err)
	}
	return fmt.Errorf("timeout/sqlite: %w", err)
}

func isBusy(err error) bool {
	var failure *sqlite.Error
	return errors.As(err, &failure) && failure.Code()&0xff == lib.SQLITE_BUSY
}
