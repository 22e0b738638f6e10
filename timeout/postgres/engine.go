package postgres

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/heartwheel-go/heartwheel/timeout"
)

// maxChunk is how many tasks a transaction has at most.
const maxChunk = 1000

// Engine keeps tasks in PostgreSQL: see the package's comment, and timeout.Engine for its
// methods. It is a timeout.Log, a timeout.Waker and a timeout.Truth, too.
//
// What another process changes of a topic is known after a second at the latest, other than
// its being paused, dropped or given another number of retries, which is known at once.
type Engine struct {
	pool   *pgxpool.Pool
	listen *pgx.ConnConfig // of Wake
	own    bool            // Close closes the pool
	schema string
	sql    statements
	closed atomic.Bool
	life   context.Context // ends with the engine
	end    context.CancelFunc
	parts  sync.WaitGroup // the herald, and all that wait in Wake

	herald *herald
	topics topics
	counts counts
	news   news

	mu       sync.Mutex // guards what follows, and the beginning of Wake against Close
	surveyAt time.Time  // when Upkeep looks at leases, and at all that is dead, again
}

var (
	_ timeout.Engine = (*Engine)(nil)
	_ timeout.Log    = (*Engine)(nil)
	_ timeout.Waker  = (*Engine)(nil)
	_ timeout.Truth  = (*Engine)(nil)
)

func newEngine(pool *pgxpool.Pool, listen *pgx.ConnConfig, schema string) *Engine {
	e := &Engine{pool: pool, listen: listen, schema: schema, sql: newStatements(schema)}
	e.life, e.end = context.WithCancel(context.Background())
	e.topics.known = make(map[string]*topic)
	e.counts.known = make(map[string]count)
	e.herald = newHerald()
	e.parts.Go(func() { e.spread(e.life) })
	return e
}

// Now returns the server's clock.
func (e *Engine) Now(ctx context.Context) (time.Time, error) {
	if e.closed.Load() {
		return time.Time{}, timeout.ErrClosed
	}
	var now int64
	if err := e.pool.QueryRow(ctx, e.sql.Now).Scan(&now); err != nil {
		return time.Time{}, e.wrap("asking for the time", err)
	}
	return time.UnixMilli(now), nil
}

// Close ends the engine, and the pool if Open has made it. It waits for the calls that are
// under way where the pool is the engine's own. It is idempotent.
func (e *Engine) Close() error {
	e.mu.Lock()
	before := e.closed.Swap(true)
	e.mu.Unlock()
	if before {
		return nil
	}
	e.end()
	e.parts.Wait()
	if e.own {
		e.pool.Close()
	}
	return nil
}

// conflicts is how many times a transaction is tried that the server has given up in favour
// of another one.
const conflicts = 10

// transact sends the statements that fill adds, in one transaction and one round trip. Where
// the server breaks that off in favour of another one it is done again: fill has to begin
// anew each time.
func (e *Engine) transact(ctx context.Context, doing string, fill func(*pgx.Batch)) error {
	if e.closed.Load() {
		return timeout.ErrClosed
	}
	var err error
	for range conflicts {
		batch := new(pgx.Batch)
		batch.Queue(e.sql.Planner)
		fill(batch)
		if err = e.pool.SendBatch(ctx, batch).Close(); !isConflict(err) {
			break
		}
		e.news.refuted(err)
	}
	return e.wrap(doing, err)
}

// isConflict reports a deadlock, what can't be serialized, and a task that was thought not to
// be there: nothing has been done then.
func isConflict(err error) bool {
	failure := (*pgconn.PgError)(nil)
	return errors.As(err, &failure) && (failure.Code == "40P01" || failure.Code == "40001" || failure.Code == uniqueViolation)
}

// wrap says what was being done.
func (e *Engine) wrap(doing string, err error) error {
	switch {
	case err == nil || errors.Is(err, timeout.ErrNotFound) || errors.Is(err, timeout.ErrClosed):
		return err
	case e.closed.Load():
		return fmt.Errorf("%w: %s: %w", timeout.ErrClosed, doing, err)
	}
	return fmt.Errorf("timeout/postgres: %s: %w", doing, classify(err))
}

// classify wraps ErrFull around the errors that mean that.
func classify(err error) error {
	failure := (*pgconn.PgError)(nil)
	if errors.As(err, &failure) && (failure.Code == "53100" || failure.Code == "53200") {
		return fmt.Errorf("%w: %w", timeout.ErrFull, err)
	}
	return err
}
