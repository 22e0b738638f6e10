package postgres

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/heartwheel-go/heartwheel/timeout/engine"
)

// mode is whether the server takes changes.
type mode struct {
	standby  bool
	readOnly bool // also true for a standby
}

const askMode = `SELECT pg_is_in_recovery(), current_setting('transaction_read_only')::bool`

// Ready implements engine.Engine.
func (e *Engine) Ready(ctx context.Context) error {
	var mode mode
	if err := e.ask(ctx, "being ready", askMode, &mode.standby, &mode.readOnly); err != nil {
		return err
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
	var age int64
	err := e.ask(ctx, "looking for the oldest transaction", e.sql.Oldest, &age)
	return max(0, time.Duration(age)*time.Microsecond), err
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
