package postgres

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/cenkalti/backoff/v5"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/heartwheel-go/heartwheel/timeout/engine"
)

// maxChunk is the largest number of tasks in a transaction.
const maxChunk = 1000

// Engine keeps tasks in PostgreSQL: see the package's comment, and engine.Engine for its
// methods. It is an engine.Log, an engine.Waker and an engine.Primary, too.
//
// The engine knows another process's change of a topic after a second at the latest. It knows at
// once if the topic was paused, dropped or given another number of retries.
type Engine struct {
	pool   *pgxpool.Pool   // for with
	freed  chan struct{}   // has an element if a connection may have become idle
	listen *pgx.ConnConfig // of Wake
	own    bool            // Close closes the pool
	schema string
	sql    statements
	closed atomic.Bool
	life   context.Context // ends with the engine
	end    context.CancelFunc
	parts  sync.WaitGroup // the notifier, the calls of Wake and the looks

	notifier *notifier
	topics   topics
	inserts  insertOnly
	full     atomic.Pointer[time.Time] // when the server last had no room, or nil

	mu       sync.Mutex        // guards the fields below, and the beginning of a part against Close
	surveyAt time.Time         // next survey by Maintain
	counted  map[int32]counted // by number of the topic: one made anew has another
}

var (
	_ engine.Engine  = (*Engine)(nil)
	_ engine.Log     = (*Engine)(nil)
	_ engine.Waker   = (*Engine)(nil)
	_ engine.Peeker  = (*Engine)(nil)
	_ engine.Primary = (*Engine)(nil)
)

func newEngine(pool *pgxpool.Pool, listen *pgx.ConnConfig, schema string) *Engine {
	e := &Engine{pool: pool, freed: make(chan struct{}, 1), listen: listen, schema: schema, sql: newStatements(schema)}
	e.life, e.end = context.WithCancel(context.Background())
	e.topics.known = make(map[string]*topic)
	e.counted = make(map[int32]counted)
	e.notifier = &notifier{messages: make(map[string]struct{}), wakeup: make(chan struct{}, 1)}
	e.parts.Go(func() { e.spread(e.life) })
	return e
}

// Now returns the server's clock.
func (e *Engine) Now(ctx context.Context) (time.Time, error) {
	var now int64
	err := e.ask(ctx, "asking for the time", e.sql.Now, &now)
	return time.UnixMilli(now), err
}

// ask reads the row of a statement, outside of a transaction.
func (e *Engine) ask(ctx context.Context, doing, sql string, row ...any) error {
	if e.closed.Load() {
		return engine.ErrClosed
	}
	return e.wrap(doing, e.with(ctx, func(conn *pgxpool.Conn) error { return conn.QueryRow(ctx, sql).Scan(row...) }))
}

// Close ends the engine. If Open has made the pool, Close also waits for the calls under way and
// closes the pool. It is idempotent.
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

// start calls do in a goroutine that Close waits for. After Close it reports false.
func (e *Engine) start(do func()) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.closed.Load() {
		return false
	}
	e.parts.Go(do)
	return true
}

// conflicts is the number of tries of a transaction aborted by the server because of another one. The first of the pauses
// between them is of some conflictPause, and each is 1.5 times the one before.
const (
	conflicts     = 10
	conflictPause = 2 * time.Millisecond
)

// transact sends the statements added by fill, in one transaction and one round trip. It repeats fill as
// repeat says.
func (e *Engine) transact(ctx context.Context, doing string, fill func(*pgx.Batch)) error {
	return e.repeat(ctx, doing, func() error {
		batch := new(pgx.Batch)
		batch.Queue(e.sql.Planner)
		fill(batch)
		return e.send(ctx, batch)
	})
}

// begin begins a transaction of several round trips, whatever the database's isolation level. It holds locks that all
// nodes want. So the server ends the transaction of a process that was stopped in it, or is cut off.
const begin = "BEGIN ISOLATION LEVEL READ COMMITTED; SET LOCAL idle_in_transaction_session_timeout = '5s'"

// inTx calls do in a transaction that waits for others. It repeats do as repeat says.
func (e *Engine) inTx(ctx context.Context, doing string, do func(pgx.Tx) error) error {
	return e.repeat(ctx, doing, func() error {
		return e.with(ctx, func(conn *pgxpool.Conn) error {
			return pgx.BeginTxFunc(ctx, conn, pgx.TxOptions{BeginQuery: begin}, do)
		})
	})
}

// repeat calls try again, after a pause, as long as the server aborts its transaction for another one: try has to begin
// anew each time. The pauses are random, so callers that have met don't meet again.
func (e *Engine) repeat(ctx context.Context, doing string, try func() error) error {
	if e.closed.Load() {
		return engine.ErrClosed
	}
	pauses := backoff.NewExponentialBackOff()
	pauses.InitialInterval = conflictPause
	_, err := backoff.Retry(ctx, func() (none struct{}, err error) {
		if err = try(); isConflict(err) {
			e.inserts.refuted(err)
		} else if err != nil {
			err = backoff.Permanent(err)
		}
		return none, err
	}, backoff.WithBackOff(pauses), backoff.WithMaxTries(conflicts))
	return e.wrap(doing, err)
}

// isConflict reports a deadlock, a serialization failure, or a task wrongly thought to be new. In
// these cases nothing has been done.
func isConflict(err error) bool {
	code := codeOf(err)
	return code == "40P01" || code == "40001" || code == uniqueViolation
}

// wrap adds the action to an error.
func (e *Engine) wrap(doing string, err error) error {
	for _, known := range []error{nil, engine.ErrNotFound, engine.ErrClosed, engine.ErrConflict, engine.ErrArgument} {
		if errors.Is(err, known) {
			return err
		}
	}
	if e.closed.Load() {
		return fmt.Errorf("%w: %s: %w", engine.ErrClosed, doing, err)
	}
	err = classify(err)
	if errors.Is(err, engine.ErrFull) {
		now := time.Now()
		e.full.Store(&now)
	}
	return fmt.Errorf("timeout/postgres: %s: %w", doing, err)
}

// classify wraps errors of a full server in ErrFull.
func classify(err error) error {
	if code := codeOf(err); code == "53100" || code == "53200" {
		return fmt.Errorf("%w: %w", engine.ErrFull, err)
	}
	return err
}

// codeOf returns the server's code of an error (SQLSTATE), or an empty string.
func codeOf(err error) string {
	if failure := (*pgconn.PgError)(nil); errors.As(err, &failure) {
		return failure.Code
	}
	return ""
}
