package sqlite

import (
	"context"
	"database/sql"
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"github.com/heartwheel-go/heartwheel/timeout/engine"
)

// chunk is the greatest number of tasks in one transaction.
const chunk = 512

// Engine keeps tasks in a file. It implements engine.Engine, engine.Primary, engine.Log,
// engine.Peeker and engine.Waker. Several goroutines may call its methods at the same time.
type Engine struct {
	cfg     Config
	writing *sql.DB
	conn    *sql.Conn // the only one of writing
	writer  *session  // on conn
	reading *sql.DB
	reader  *session // on reading
	lock    lock     // held while writer is in use
	reserve *reserve
	log     string         // path of the write-ahead log
	easing  bool           // whether ease runs; lock guards it
	eased   sync.WaitGroup // ease
	life    context.Context
	end     context.CancelFunc // ends ease
	wakers  atomic.Int64       // running calls of Wake
	changed atomic.Int64       // committed transactions of Set, Move, Remove and Replay

	use    sync.RWMutex // read lock: every call; write lock: Close
	closed bool

	mu      sync.Mutex        // guards counted
	counted map[int64]counted // by number of the topic
}

func now() int64 { return time.Now().UnixMilli() }

// call does the work of a call, unless the engine is closed or ctx has ended. Close waits for it.
func call[R any](ctx context.Context, e *Engine, what string, work func() (R, error)) (result R, err error) {
	if err := ctx.Err(); err != nil {
		return result, err
	}
	e.use.RLock()
	defer e.use.RUnlock()
	if e.closed {
		return result, engine.ErrClosed
	}
	result, err = work()
	return result, e.wrap(what, err)
}

// transaction is a call that works in a single transaction. It is not interrupted.
func transaction[R any](ctx context.Context, e *Engine, what string, work func(context.Context, *session) (R, error)) (R, error) {
	return call(ctx, e, what, func() (R, error) { return within(ctx, e.write, work) })
}

// writing is write or add.
type writing func(context.Context, func(*session) error) error

// within does some work in a transaction.
func within[R any](ctx context.Context, write writing, work func(context.Context, *session) (R, error)) (result R, err error) {
	err = write(ctx, func(s *session) (err error) {
		result, err = work(context.Background(), s)
		return err
	})
	return result, err
}

// Now implements engine.Engine. It returns the clock of this machine.
func (e *Engine) Now(ctx context.Context) (time.Time, error) {
	return call(ctx, e, "telling the time", func() (time.Time, error) { return time.UnixMilli(now()), nil })
}

// Close implements engine.Engine. It waits for running calls.
func (e *Engine) Close() error {
	e.use.Lock()
	defer e.use.Unlock()
	if e.closed {
		return nil
	}
	e.closed = true
	e.end()
	e.eased.Wait()
	return e.shut()
}

// shut closes the connections. The writer is last, because the last connection to close cleans up
// the file.
func (e *Engine) shut() error {
	var failures []error
	if e.reading != nil {
		failures = append(failures, e.reader.close(), e.reading.Close())
	}
	if e.conn != nil {
		failures = append(failures, e.writer.close(), e.conn.Close())
	}
	if e.writing != nil {
		failures = append(failures, e.writing.Close())
	}
	return e.wrap("closing", errors.Join(failures...))
}
