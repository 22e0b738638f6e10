package postgres

import (
	"context"

	"github.com/jackc/pgx/v5"

	"github.com/heartwheel-go/heartwheel/timeout/engine"
)

// SetTx is Center.Set in a transaction of the caller's, on the database that the engine is in:
// the tasks are set when and only when it commits. An error that wraps engine.ErrArgument
// says that nothing was done; after any other one the transaction can only be rolled back.
// Others that change the same tasks wait for the end of the transaction, so it should be
// short. Callbacks are not checked by their callers.
func (e *Engine) SetTx(ctx context.Context, tx pgx.Tx, tasks []engine.Task) ([]engine.Answer, error) {
	for _, task := range tasks {
		if err := task.Check(); err != nil {
			return nil, err
		}
	}
	if e.closed.Load() {
		return nil, engine.ErrClosed
	}
	return e.set(ctx, e.within(tx), tasks)
}

// MoveTx is Center.Move as SetTx is Center.Set.
func (e *Engine) MoveTx(ctx context.Context, tx pgx.Tx, moves []engine.Move) ([]engine.Answer, error) {
	for _, move := range moves {
		task := engine.Task{Topic: move.Topic, ID: move.ID, Due: move.Due, After: move.After}
		if err := task.Check(); err != nil {
			return nil, err
		}
	}
	if e.closed.Load() {
		return nil, engine.ErrClosed
	}
	return e.move(ctx, e.within(tx), moves)
}

// RemoveTx is Center.RemoveAll as SetTx is Center.Set.
func (e *Engine) RemoveTx(ctx context.Context, tx pgx.Tx, removals []engine.Removal) ([]engine.Answer, error) {
	for _, removal := range removals {
		if err := removal.Check(); err != nil {
			return nil, err
		}
	}
	if e.closed.Load() {
		return nil, engine.ErrClosed
	}
	return e.remove(ctx, e.within(tx), removals)
}
