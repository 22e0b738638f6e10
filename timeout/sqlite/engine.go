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

// chunk is how many tasks a transaction has at most.
const chunk = 512

// Engine keeps tasks in a file. It is an engine.Engine, an engine.Truth, an engine.Log and an
// engine.Waker.
// Its methods may be called by several goroutines at the same time.
type Engine struct {
	cfg     Config
	writing *sql.DB
	writer  *writer
	reader  *reader
	lock    chan struct{} // held by whoever uses writer
	reserve *reserve
	wakers  atomic.Int64 // calls of Wake
	changed atomic.Int64 // transactions of verbs

	use    sync.RWMutex // held by calls for reading, and by Close
	closed bool

	mu      sync.Mutex         // guards what follows
	counted map[string]counted // by topic
	fenced  map[int64]fence    // by number of the topic

	surplusAt time.Time // when Upkeep looks again whether too much is dead
}

func now() int64 { return time.Now().UnixMilli() }

// enter has Close wait for the call, where the engine is open and ctx has not ended. The
// caller must call e.use.RUnlock then.
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

// Now is engine.Engine's: the clock of this machine.
func (e *Engine) Now(ctx context.Context) (time.Time, error) {
	if err := e.enter(ctx); err != nil {
		return time.Time{}, err
	}
	defer e.use.RUnlock()
	return time.UnixMilli(now()), nil
}

// Close is engine.Engine's. It waits for calls that have begun.
func (e *Engine) Close() error {
	e.use.Lock()
	defer e.use.Unlock()
	if e.closed {
		return nil
	}
	e.closed = true
	return e.shut()
}

// shut closes what is open. The writer is last: whoever closes the file last cleans up.
func (e *Engine) shut() error {
	var failures []error
	if e.reader != nil {
		for _, stmt := range e.reader.stmts {
			failures = append(failures, stmt.Close())
		}
		failures = append(failures, e.reader.db.Close())
	}
	if e.writer != nil {
		for _, stmt := range e.writer.stmts {
			failures = append(failures, stmt.Close())
		}
		failures = append(failures, e.writer.conn.Close())
	}
	if e.writing != nil {
		failures = append(failures, e.writing.Close())
	}
	return e.wrap("closing", errors.Join(failures...))
}
