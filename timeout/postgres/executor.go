package postgres

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
)

// executor sends statements to the server in transactions of the engine's own, or a foreign one, the caller's.
type executor struct {
	send    func(ctx context.Context, doing string, fill func(*pgx.Batch)) error
	foreign bool
}

func (e *Engine) direct() executor { return executor{send: e.transact} }

// within executes in the caller's transaction. It leaves the transaction's settings alone, but for toDisk
// in the first one of a connection.
func (e *Engine) within(tx pgx.Tx) executor {
	return executor{foreign: true, send: func(ctx context.Context, doing string, fill func(*pgx.Batch)) error {
		batch := new(pgx.Batch)
		e.raiseWithin(batch, tx.Conn())
		fill(batch)
		if err := tx.SendBatch(ctx, batch).Close(); err != nil {
			return fmt.Errorf("timeout/postgres: %s: %w", doing, classify(err))
		}
		return nil
	}}
}

// count64 stores the number of rows changed by a statement.
func count64(n *int64) func(pgconn.CommandTag) error {
	return func(tag pgconn.CommandTag) error {
		*n = tag.RowsAffected()
		return nil
	}
}
