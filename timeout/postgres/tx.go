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

// DoneTx ends a task in the caller's transaction, for the task's handler: what the handler writes and the end of its task
// are one commit. The context must be the handler's. After the commit return nil, and after a rollback return an error. A
// periodic task waits for its next time. DoneTx returns an error wrapping engine.ErrLeaseLost if the task is no longer the
// handler's: it was set, removed or leased again. Then, and after any other error but engine.ErrArgument and
// engine.ErrClosed, roll the transaction back.
//
// Call DoneTx last. From then on nobody extends the lease, and other changes of the task wait for the end of the transaction.
// If the lease ends first, the handler's context does, too. If the handler returns nil without a commit, the task runs again
// after its lease. A second DoneTx returns engine.ErrLeaseLost. Above READ COMMITTED, PostgreSQL's default, a transaction that
// began before an extension of the lease fails.
func (e *Engine) DoneTx(ctx context.Context, tx pgx.Tx) error {
	return engine.SettleAttempt(ctx, func(outcome engine.Outcome) (bool, error) {
		if e.closed.Load() {
			return false, engine.ErrClosed
		}
		exec, topic := e.within(tx), outcome.Token.Topic
		found, err := e.find(ctx, exec, topic) // without another connection: handlers may hold all of the pool's
		if err == nil && found[topic] == nil {
			err = notFound(topic)
		}
		if err != nil {
			return false, err
		}
		settled := make([]bool, 1)
		err = exec.send(ctx, "ending a task", func(b *pgx.Batch) {
			e.queueSettle(b, found[topic], settlements([]engine.Outcome{outcome}), settled)
			if outcome.As == engine.Pending {
				e.queueNotice(b, soonMoved([]engine.Move{{Key: outcome.Token.Key, Due: outcome.Due, After: outcome.After}}))
			}
		})
		return settled[0], err
	})
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
