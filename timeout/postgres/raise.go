package postgres

import (
	"context"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
)

// The first numbers of two advisory locks. The second one is the sequence's.
const (
	raiseLock  int32 = 0x68775f6e // who raises the sequence has it until the end of the transaction
	raisedLock int32 = 0x68775f6f // the flag: a connection that has raised the sequence shares it to its end
)

// The answers of raise.sql. After known and raised, the connection has no flag.
const (
	marked = "marked"
	known  = "known"  // a connection with a flag has raised the sequence
	raised = "raised" // it may not be on disk yet
	never  = "never"  // the role has no rights
	later  = "later"  // the server takes no changes
)

// toDisk has the commit of a transaction wait for the disk: a raise lost in a crash would be made again.
const toDisk = `SELECT set_config('synchronous_commit', replace(current_setting('synchronous_commit'), 'off', 'local'), true)`

// send sends a batch. On a new connection it raises the sequence first: a server that has lost numbers
// has lost its connections, too.
func (e *Engine) send(ctx context.Context, batch *pgx.Batch) error {
	return e.with(ctx, func(conn *pgxpool.Conn) error {
		if answer := e.raised(conn.Conn()); answer != marked && answer != never {
			raise := new(pgx.Batch)
			raise.Queue(toDisk)
			e.queueRaise(raise, conn.Conn(), true)
			if err := conn.SendBatch(ctx, raise).Close(); err != nil {
				_ = conn.Conn().Close(ctx) // it may have the flag, and its raise is not on disk
				return err
			}
		}
		return conn.SendBatch(ctx, batch).Close()
	})
}

// raiseWithin adds the same to a batch in a caller's transaction, without the flag. It does not keep the lock:
// the caller may use the engine before the end. The rollback takes no number back.
func (e *Engine) raiseWithin(batch *pgx.Batch, conn *pgx.Conn) {
	if conn == nil {
		return
	}
	switch e.raised(conn) {
	case "":
		batch.Queue("SAVEPOINT hw_raise")
		e.queueRaise(batch, conn, false)
		batch.Queue("ROLLBACK TO SAVEPOINT hw_raise")
		batch.Queue("RELEASE SAVEPOINT hw_raise")
		batch.Queue(toDisk)
	case raised: // in a transaction that may have been rolled back
		batch.Queue(toDisk)
	}
}

// raisedKey is the key, in the data of a connection, for the answer of raise.sql.
func (e *Engine) raisedKey() string { return "heartwheel: raised " + e.schema }

// raised returns that answer, or an empty string if the connection has to raise the sequence.
func (e *Engine) raised(conn *pgx.Conn) string {
	answer, _ := conn.PgConn().CustomData()[e.raisedKey()].(string)
	return answer
}

// queueRaise adds the statement to raise the sequence. It waits while another connection does so. marks says whether
// the connection takes the flag.
func (e *Engine) queueRaise(batch *pgx.Batch, conn *pgx.Conn, marks bool) {
	batch.Queue(e.sql.Raise, raiseLock, raisedLock, marks).QueryRow(func(row pgx.Row) error {
		var answer string
		err := row.Scan(&answer)
		if answer != "" && answer != later {
			conn.PgConn().CustomData()[e.raisedKey()] = answer
		}
		return err
	})
}
