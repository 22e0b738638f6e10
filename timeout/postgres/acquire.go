package postgres

import (
	"context"
	"errors"
	"time"

	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"
)

// Another try to connect to a server that has refused one comes when a connection of this engine becomes idle, or after
// this time, which doubles.
const (
	againFirst = 10 * time.Millisecond
	againMost  = time.Second
)

// with calls do with a connection of the pool.
func (e *Engine) with(ctx context.Context, do func(*pgxpool.Conn) error) error {
	conn, err := e.acquire(ctx)
	if err != nil {
		return err
	}
	defer func() {
		conn.Release()
		select {
		case e.freed <- struct{}{}:
		default:
		}
	}()
	return do(conn)
}

// acquire takes a connection out of the pool. A pool without an idle one makes another. If the server has no room for
// that, the call waits for one that the pool has, as it does in a full pool.
func (e *Engine) acquire(ctx context.Context) (*pgxpool.Conn, error) {
	var refused error
	for wait := againFirst; ; wait = min(2*wait, againMost) {
		conn, err := e.pool.Acquire(ctx)
		if err == nil || !isCrowded(err) && refused == nil {
			return conn, err
		}
		if stat := e.pool.Stat(); !isCrowded(err) || stat.AcquiredConns()+stat.IdleConns() == 0 {
			return nil, errors.Join(err, refused)
		}
		refused = err
		select {
		case <-ctx.Done():
			return nil, errors.Join(ctx.Err(), refused)
		case <-e.freed:
		case <-time.After(wait):
		}
	}
}

// isCrowded reports whether the server, or PgBouncer, takes no more connections: of all, of the role or for the database.
func isCrowded(err error) bool {
	refused, code := (*pgconn.ConnectError)(nil), codeOf(err)
	return errors.As(err, &refused) && (code == "53300" || code == "08P01")
}
