package postgres

// Statements are all statements, by name, for the tables of an engine.
func (e *Engine) Statements() statements { return e.sql }

// Schema is where an engine's tables are.
func (e *Engine) Schema() string { return e.schema }
