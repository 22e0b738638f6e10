package postgres

import (
	"context"

	"github.com/jackc/pgx/v5"
)

// raiseLock is the first number of the advisory lock for raising a sequence. The second one is the
// sequence's.
const raiseLock int32 = 0x68775f6e

// toDisk has the commit of a transaction wait for the disk: a raise lost in a crash would be made again.
const toDisk = `SELECT set_config('synchronous_commit', replace(current_setting('synchronous_commit'), 'off', 'local'), true)`

// send sends a batch. On a new connection it raises the sequence first: a server that has lost numbers
// has lost its connections, too.
func (e *Engine) send(ctx context.Context, batch *pgx.Batch) error {
	conn, err := e.pool.Acquire(ctx)
	if err != nil {
		return err
	}
	defer conn.Release()
	if !e.hasRaised(conn.Conn()) {
		raise := new(pgx.Batch)
		raise.Queue(toDisk)
		e.queueRaise(raise, conn.Conn())
		if err := conn.SendBatch(ctx, raise).Close(); err != nil {
			return err
		}
	}
	return conn.SendBatch(ctx, batch).Close()
}

// raiseWithin adds the same to a batch in a caller's transaction. It does not keep the lock: the caller
// may use the engine before the end. The rollback takes no number back.
func (e *Engine) raiseWithin(batch *pgx.Batch, conn *pgx.Conn) {
	if conn == nil || e.hasRaised(conn) {
		return
	}
	batch.Queue("SAVEPOINT hw_raise")
	e.queueRaise(batch, conn)
	batch.Queue("ROLLBACK TO SAVEPOINT hw_raise")
	batch.Queue("RELEASE SAVEPOINT hw_raise")
	batch.Queue(toDisk)
}

// raisedMark is the name of the mark of a connection that has raised the sequence.
func (e *Engine) raisedMark() string { return "heartwheel: raised " + e.schema }

func (e *Engine) hasRaised(conn *pgx.Conn) bool {
	return conn.PgConn().CustomData()[e.raisedMark()] != nil
}

// queueRaise adds the statement to raise the sequence. It waits while another connection does so.
func (e *Engine) queueRaise(batch *pgx.Batch, conn *pgx.Conn) {
	batch.Queue(e.sql.Raise, raiseLock).QueryRow(func(row pgx.Row) error {
		var done bool
		err := row.Scan(&done)
		if done {
			conn.PgConn().CustomData()[e.raisedMark()] = done
		}
		return err
	})
}
