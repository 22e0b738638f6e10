package sqlite

import (
	"context"
	"embed"
	"fmt"
	"time"

	"github.com/heartwheel-go/heartwheel/timeout/internal/sqlkit"
)

//go:embed migrations/*.sql
var migrations embed.FS

// numberStep is how far the counter is set on when a file is opened: without Config.Sync a
// failure of the power may have taken back commits, whose numbers others have been told.
const numberStep = 1 << 20

// migrateTimeout is how long to wait for others that start at the same time.
const migrateTimeout = time.Minute

// migrate makes the tables what this release needs. It is one transaction, so of several
// that start at the same time one does it, and one that is killed has done nothing.
func (e *Engine) migrate(ctx context.Context) error {
	steps, err := sqlkit.Migrations(migrations)
	if err != nil {
		return err
	}
	return e.migrateTo(ctx, steps)
}

func (e *Engine) migrateTo(ctx context.Context, steps []string) error {
	ctx, cancel := context.WithTimeout(ctx, migrateTimeout)
	defer cancel()
	return e.write(ctx, func(s *session) error {
		// Statements can't be kept over what changes tables.
		run := func(text string, args ...any) error {
			_, err := s.conn.ExecContext(context.Background(), e.names.Replace(text), args...)
			return err
		}
		if err := run(`CREATE TABLE IF NOT EXISTS {schema} (version INTEGER PRIMARY KEY, at INTEGER NOT NULL)`); err != nil {
			return err
		}
		version := 0
		row := s.conn.QueryRowContext(context.Background(), e.names.Replace(`SELECT coalesce(max(version), 0) FROM {schema}`))
		if err := row.Scan(&version); err != nil {
			return err
		}
		if err := sqlkit.CheckVersion(version, len(steps)); err != nil {
			return err
		}
		for ; version < len(steps); version++ {
			if err := run(steps[version]); err != nil {
				return fmt.Errorf("migration %d: %w", version+1, err)
			}
			if err := run(`INSERT INTO {schema} VALUES (?, ?)`, version+1, clock()); err != nil {
				return err
			}
		}
		return run(`UPDATE {meta} SET value = value + ? WHERE name = 'number'`, numberStep)
	})
}
