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
	writer  *prepared // on conn
	reading *sql.DB
	reader  *prepared     // on reading
	lock    chan struct{} // held while writer is in use
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

	mu      sync.Mutex        // guards the fields below
	counted map[int64]counted // by number of the topic

	surplusAt time.Time // time of Upkeep's next search for surplus dead tasks
}

func now() int64 { return time.Now().UnixMilli() }

// enter makes Close wait for the call. It fails if the engine is closed or ctx has ended. After a
// success the caller must call e.use.RUnlock.
func (e *Engine) enter(ctx context.Context) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	e.use.RLock()
	if e.closed {
		e.use.RUnlock()
		return engine.ErrClosed
	}
	return nil
}

// Now implements engine.Engine. It returns the clock of this machine.
func (e *Engine) Now(ctx context.Context) (time.Time, error) {
	if err := e.enter(ctx); err != nil {
		return time.Time{}, err
	}
	defer e.use.RUnlock()
	return time.UnixMilli(now()), nil
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
