package postgres

import "context"

// Statements are all statements, by name, for the tables of an engine.
func (e *Engine) Statements() statements { return e.sql }

// Schema returns the schema of an engine's tables.
func (e *Engine) Schema() string { return e.schema }

// Busy reports whether the next Expire takes tasks without a peek.
func (e *Engine) Busy(ctx context.Context, topic string) (bool, error) {
	t, err := e.must(ctx, topic)
	return err == nil && t.busy.Load(), err
}

const (
	Fresh         = fresh
	Window        = window
	MigrationLock = migrationLock
)
