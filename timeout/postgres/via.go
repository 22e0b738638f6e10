package postgres

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
)

// via is the way to the server: transactions of the engine's own, or one of somebody else.
type via struct {
	send    func(ctx context.Context, doing string, fill func(*pgx.Batch)) error
	foreign bool
}

func (e *Engine) direct() via { return via{send: e.transact} }

// within is the way through somebody's transaction, whose settings stay as they are.
func (e *Engine) within(tx pgx.Tx) via {
	return via{foreign: true, send: func(ctx context.Context, doing string, fill func(*pgx.Batch)) error {
		batch := new(pgx.Batch)
		fill(batch)
		if err := tx.SendBatch(ctx, batch).Close(); err != nil {
			return fmt.Errorf("timeout/postgres: %s: %w", doing, classify(err))
		}
		return nil
	}}
}

// count64 stores how many rows a statement has changed.
func count64(n *int64) func(pgconn.CommandTag) error {
	return func(tag pgconn.CommandTag) error {
		*n = tag.RowsAffected()
		return nil
	}
}
