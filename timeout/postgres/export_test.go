package postgres

// Statements are all statements, by name, for the tables of an engine.
func (e *Engine) Statements() statements { return e.sql }

// Schema returns the schema of an engine's tables.
func (e *Engine) Schema() string { return e.schema }

const (
	Window        = window
	MigrationLock = migrationLock
)
