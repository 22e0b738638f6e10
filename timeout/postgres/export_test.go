package postgres

import (
	"context"
	"maps"
	"math"
	"slices"
	"time"
)

// Statements are all statements, by name, for the tables of an engine.
func (e *Engine) Statements() statements { return e.sql }

// Schema returns the schema of an engine's tables.
func (e *Engine) Schema() string { return e.schema }

// Busy reports whether the next Lease takes tasks without a peek.
func (e *Engine) Busy(ctx context.Context, topic string) (bool, error) {
	t, err := e.must(ctx, topic)
	return err == nil && t.busy.Load(), err
}

// Known returns the topics that the engine remembers.
func (e *Engine) Known() []string {
	e.topics.mu.Lock()
	defer e.topics.mu.Unlock()
	return slices.Sorted(maps.Keys(e.topics.known))
}

// UnknownFront has a statement look from the start.
var UnknownFront = unknown.numbers()

const (
	Fresh         = fresh
	Window        = window
	MigrationLock = migrationLock
)

// Front is where the rows of a topic begin, as numbers: the last number of hw_past, the time of the look, and the
// times before which no task waits and no lease ends, and after the look.
func (e *Engine) Front(ctx context.Context, topic string) ([]int64, error) {
	t, err := e.must(ctx, topic)
	if err != nil {
		return nil, err
	}
	return e.frontOf(t), nil
}

// LookFrom has the engine believe that a look at that time, in milliseconds, has found no task before. It is the last look
// for an hour.
func (e *Engine) LookFrom(ctx context.Context, topic string, at int64) error {
	t, err := e.must(ctx, topic)
	if err != nil {
		return err
	}
	e.look(t)
	f := t.frontier
	f.mu.Lock()
	defer f.mu.Unlock()
	now := time.Now()
	f.front = front{past: f.past, at: at, waiting: at, running: at, ahead: math.MaxInt64}
	f.until, f.next = now.Add(time.Hour), now.Add(time.Hour)
	return nil
}

// LookNow looks.
func (e *Engine) LookNow(ctx context.Context, topic string) error {
	t, err := e.must(ctx, topic)
	if err == nil {
		e.look(t)
	}
	return err
}
