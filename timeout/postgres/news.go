package postgres

import (
	"errors"
	"sync/atomic"

	"github.com/jackc/pgx/v5/pgconn"
)

const (
	// newsLeast is the smallest batch to be tried as new tasks.
	newsLeast = 100

	// newsPause is the number of such batches not tried after the first wrong guess. It doubles
	// with each further one, up to newsPauseMax: each is an error in the server's log.
	newsPause    = 64
	newsPauseMax = 1 << 16

	uniqueViolation = "23505"
)

// news guesses whether all tasks of a batch are new. Most are, and inserting them costs less if
// PostgreSQL need not look for old rows.
type news struct{ pause, next atomic.Int64 }

// likely reports whether to try a batch of that size as new tasks.
func (n *news) likely(tasks int) bool {
	return tasks >= newsLeast && n.pause.Add(-1) < 0
}

// refuted notes an error caused by a task that was not new.
func (n *news) refuted(err error) {
	if failure := (*pgconn.PgError)(nil); errors.As(err, &failure) && failure.Code == uniqueViolation {
		pause := max(n.next.Load(), newsPause)
		n.pause.Store(pause)
		n.next.Store(min(2*pause, newsPauseMax))
	}
}
