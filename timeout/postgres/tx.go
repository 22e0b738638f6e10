package postgres

import (
	"context"

	"github.com/jackc/pgx/v5"

	"github.com/heartwheel-go/heartwheel/timeout/engine"
)

// SetTx is Center.SetAll in the caller's transaction, on the engine's database. The tasks are set if
// and only if the transaction commits. A missing topic is not made: then Answer.Err of its tasks wraps
// engine.ErrNotFound. After an error wrapping engine.ErrArgument or engine.ErrClosed nothing was done,
// and the transaction can go on. After any other error, roll it back. Keep the transaction short:
// other changes of the same tasks wait for its end. No Caller checks the callbacks.
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

// MoveTx is Center.MoveAll in the caller's transaction, as SetTx is Center.SetAll.
func (e *Engine) MoveTx(ctx context.Context, tx pgx.Tx, moves []engine.Move) ([]engine.Answer, error) {
	for _, move := range moves {
		if err := move.Check(); err != nil {
			return nil, err
		}
	}
	if e.closed.Load() {
		return nil, engine.ErrClosed
	}
	return e.move(ctx, e.within(tx), moves, true)
}

// RemoveTx is Center.RemoveAll in the caller's transaction, as SetTx is Center.SetAll.
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
