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
	if err := checkTx(e, tasks); err != nil {
		return nil, err
	}
	return e.set(ctx, e.within(tx), tasks)
}

// MoveTx is Center.MoveAll in the caller's transaction, as SetTx is Center.SetAll.
func (e *Engine) MoveTx(ctx context.Context, tx pgx.Tx, moves []engine.Move) ([]engine.Answer, error) {
	if err := checkTx(e, moves); err != nil {
		return nil, err
	}
	return e.move(ctx, e.within(tx), moves, true)
}

// RemoveTx is Center.RemoveAll in the caller's transaction, as SetTx is Center.SetAll.
func (e *Engine) RemoveTx(ctx context.Context, tx pgx.Tx, removals []engine.Removal) ([]engine.Answer, error) {
	if err := checkTx(e, removals); err != nil {
		return nil, err
	}
	return e.remove(ctx, e.within(tx), removals)
}

// checkTx refuses invalid arguments, and calls after Close.
func checkTx[T interface{ Check() error }](e *Engine, all []T) error {
	for _, one := range all {
		if err := one.Check(); err != nil {
			return err
		}
	}
	if e.closed.Load() {
		return engine.ErrClosed
	}
	return nil
}
