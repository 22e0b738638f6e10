package sqlite

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"

	driver "modernc.org/sqlite"
	lib "modernc.org/sqlite/lib"

	"github.com/heartwheel-go/heartwheel/timeout/engine"
)

// firstBusy is the time for which SQLite itself waits for another writer. The engine waits the
// rest of BusyTimeout, and watches ctx meanwhile.
const firstBusy = 20 * time.Millisecond

// session executes statements, on one or more connections or in a caller's transaction. It prepares each
// statement once. A limit is written as "LIMIT ? + 0". For a plain "LIMIT ?", SQLite looks at the
// value when it plans a statement, and plans it anew for each call.
type session struct {
	on interface {
		PrepareContext(ctx context.Context, query string) (*sql.Stmt, error)
	}
	stmts sync.Map // by text
}

func (s *session) stmt(ctx context.Context, query string) (*sql.Stmt, error) {
	if stmt, found := s.stmts.Load(query); found {
		return stmt.(*sql.Stmt), nil
	}
	stmt, err := s.on.PrepareContext(ctx, query)
	if err != nil {
		return nil, err
	}
	first, there := s.stmts.LoadOrStore(query, stmt)
	if there {
		stmt.Close()
	}
	return first.(*sql.Stmt), nil
}

// ExecContext executes a prepared statement.
func (s *session) ExecContext(ctx context.Context, query string, args ...any) (sql.Result, error) {
	stmt, err := s.stmt(ctx, query)
	if err != nil {
		return nil, err
	}
	return stmt.ExecContext(ctx, args...)
}

// close closes the statements.
func (s *session) close() error {
	var failures []error
	for _, stmt := range s.stmts.Range {
		failures = append(failures, stmt.(*sql.Stmt).Close())
	}
	return errors.Join(failures...)
}

// lock is a mutex. It is not waited for beyond the end of a context.
type lock chan struct{}

func (l lock) take(ctx context.Context) error {
	select {
	case l <- struct{}{}:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (l lock) free() { <-l }

// write calls do in one transaction. If the disk is full and makeRoom finds room, write calls do
// again, as often as that happens.
func (e *Engine) write(ctx context.Context, do func(*session) error) error {
	return e.persist(ctx, do, func(failures int) bool { return e.makeRoom(ctx, failures) })
}

// persist calls do in one transaction, and again as long as the disk is full and room finds some after so many failures.
func (e *Engine) persist(ctx context.Context, do func(*session) error, room func(failures int) bool) error {
	for failures := 1; ; failures++ {
		if err := e.transact(ctx, do); !isFull(err) || !room(failures) {
			return err
		}
	}
}

// add is write for transactions that add data, so a full disk refuses them. They may reuse the
// room of deleted rows, and get at most one step of the reserve, for the log. A larger
// transaction would leave too little for others.
func (e *Engine) add(ctx context.Context, do func(*session) error) error {
	if err := e.room(ctx); err != nil {
		return err
	}
	return e.persist(ctx, do, func(failures int) bool {
		if failures > 2 || !e.reusable(ctx) {
			e.reserve.release() // all processes see the shorter reserve
			return false
		}
		return e.makeRoom(ctx, failures)
	})
}

// transact calls do in one transaction. It waits for this engine's other transactions until ctx
// ends, and for other processes until BusyTimeout at most. It does not interrupt a transaction
// that has begun, because transactions are short.
func (e *Engine) transact(ctx context.Context, do func(*session) error) error {
	if err := e.lock.take(ctx); err != nil {
		return err
	}
	defer e.lock.free()
	background := context.Background()
	begin := func() error {
		_, err := e.writer.ExecContext(background, "BEGIN IMMEDIATE")
		return err
	}
	if err := e.retryWhileBusy(ctx, begin); err != nil {
		return err
	}
	committed := false
	defer func() {
		if !committed {
			_, _ = e.writer.ExecContext(background, "ROLLBACK") // fails if SQLite has rolled back by itself
		}
	}()
	if err := do(e.writer); err != nil {
		return err
	}
	_, err := e.writer.ExecContext(background, "COMMIT")
	if committed = err == nil; committed {
		e.watchLog()
	}
	return err
}

// retryWhileBusy repeats try while another process writes, for BusyTimeout at most.
func (e *Engine) retryWhileBusy(ctx context.Context, try func() error) error {
	deadline := time.Now().Add(e.cfg.BusyTimeout)
	for {
		if err := ctx.Err(); err != nil {
			return err
		}
		err := try()
		if err == nil || code(err) != lib.SQLITE_BUSY || time.Now().After(deadline) {
			return err
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(time.Duration(1+rand.IntN(4)) * time.Millisecond): // random, to take turns
		}
	}
}

// code returns SQLite's primary code of an error, and 0 for any other error.
func code(err error) int {
	var failure *driver.Error
	if errors.As(err, &failure) {
		return failure.Code() & 0xff
	}
	return 0
}

// wrap adds the failed action to an error. Errors of package engine stay as they are.
func (e *Engine) wrap(what string, err error) error {
	if err == nil {
		return nil
	}
	for _, known := range []error{engine.ErrArgument, engine.ErrNotFound, engine.ErrConflict, engine.ErrClosed, engine.ErrFull} {
		if errors.Is(err, known) {
			return err
		}
	}
	if isFull(err) {
		return fmt.Errorf("%w: timeout/sqlite: %s: %w", engine.ErrFull, what, err)
	}
	return fmt.Errorf("timeout/sqlite: %s: %w", what, err)
}

// errEnough ends each early, without an error. The payloads of the remaining rows are not read.
var errEnough = errors.New("enough")

// each calls scan for every row, until scan returns an error.
func each(ctx context.Context, s *session, query string, args []any, scan func(*sql.Rows) error) error {
	stmt, err := s.stmt(ctx, query)
	if err != nil {
		return err
	}
	rows, err := stmt.QueryContext(ctx, args...)
	if err != nil {
		return err
	}
	defer rows.Close()
	for rows.Next() {
		err := scan(rows)
		if errors.Is(err, errEnough) {
			return nil
		}
		if err != nil {
			return err
		}
	}
	return rows.Err()
}

// one reads the row of a query into the destinations, and reports whether there was one. Of
// several rows the last one stays.
func one(ctx context.Context, s *session, query string, args []any, into ...any) (bool, error) {
	found := false
	err := each(ctx, s, query, args, func(rows *sql.Rows) error {
		found = true
		return rows.Scan(into...)
	})
	return found, err
}

// collect returns what scan reads from every row. With an error it returns what was read before.
func collect[R any](ctx context.Context, s *session, query string, args []any, scan func(*sql.Rows) (R, error)) (all []R, err error) {
	err = each(ctx, s, query, args, func(rows *sql.Rows) error {
		one, err := scan(rows)
		if err == nil {
			all = append(all, one)
		}
		return err
	})
	return all, err
}

// column returns the values of a query for one column.
func column[R any](ctx context.Context, s *session, query string, args ...any) ([]R, error) {
	return collect(ctx, s, query, args, func(rows *sql.Rows) (value R, err error) { return value, rows.Scan(&value) })
}

// affect executes a statement and returns the number of changed rows.
func affect(ctx context.Context, s *session, query string, args ...any) (int, error) {
	result, err := s.ExecContext(ctx, query, args...)
	if err != nil {
		return 0, err
	}
	changed, err := result.RowsAffected()
	return int(changed), err
}

// array returns a list for json_each.
func array[T any](values []T) string {
	text, err := json.Marshal(values)
	if err != nil {
		panic(err) // numbers and strings can't fail
	}
	return string(text)
}
