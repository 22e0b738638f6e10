package postgres

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/heartwheel-go/heartwheel/timeout/engine"
)

// mode is whether the server takes changes.
type mode struct {
	standby  bool
	readOnly bool // also true for a standby
}

const askMode = `SELECT pg_is_in_recovery(), current_setting('transaction_read_only')::bool`

func (m *mode) scan(row pgx.Row) error { return row.Scan(&m.standby, &m.readOnly) }

// Ready implements engine.Engine.
func (e *Engine) Ready(ctx context.Context) error {
	if e.closed.Load() {
		return engine.ErrClosed
	}
	var mode mode
	if err := e.with(ctx, func(conn *pgxpool.Conn) error { return mode.scan(conn.QueryRow(ctx, askMode)) }); err != nil {
		return e.wrap("being ready", err)
	}
	if err := mode.check(); err != nil {
		return err
	}
	if at := e.full.Load(); at != nil && time.Since(*at) < fullFor {
		return fmt.Errorf("%w: the server has refused a change for that within %v", engine.ErrFull, fullFor)
	}
	return nil
}

// OldestTransaction returns how long the oldest transaction of the database has been open that has a snapshot or has
// written: a query, a backup, a forgotten session, or one that is prepared. As long as it is open, the server keeps all
// dead rows, so the tables grow, and looks for due tasks take longer. Without the rights of pg_read_all_stats it sees
// only the transactions of its own role, and the prepared ones. Zero means that there is none.
func (e *Engine) OldestTransaction(ctx context.Context) (time.Duration, error) {
	if e.closed.Load() {
		return 0, engine.ErrClosed
	}
	var age int64
	err := e.with(ctx, func(conn *pgxpool.Conn) error { return conn.QueryRow(ctx, e.sql.Oldest).Scan(&age) })
	return max(0, time.Duration(age)*time.Microsecond), e.wrap("looking for the oldest transaction", err)
}

// fullFor is how long the engine is not ready after the server had no room. There may be room again.
const fullFor = time.Second

// check returns an error if the server takes no changes. It is no engine.ErrArgument: after a
// failover the same server may take changes again, or another one has its name.
func (m *mode) check() error {
	switch {
	case m.standby:
		return errors.New("timeout/postgres: the server is a standby (pg_is_in_recovery), must be the primary")
	case m.readOnly:
		return errors.New("timeout/postgres: the server is read-only (transaction_read_only is on, see default_transaction_read_only), must take changes")
	}
	return nil
}
