package postgres

import (
	"errors"
	"sync/atomic"

	"github.com/jackc/pgx/v5/pgconn"
)

const (
	// newsLeast is how many tasks are set at least where they are thought to be new.
	newsLeast = 100

	// newsPause is how many times they are not after that was wrong for the first time, and
	// twice as often each time after, up to newsPauseMax: each time is an error in the log of
	// the server.
	newsPause    = 64
	newsPauseMax = 1 << 16

	uniqueViolation = "23505"
)

// news tells whether tasks that are set are probably new, all of a batch. Most are, and
// inserting them costs less where PostgreSQL need not look for what they replace.
type news struct{ pause, next atomic.Int64 }

// likely reports whether a batch of so many is to be tried as one of new tasks.
func (n *news) likely(tasks int) bool {
	return tasks >= newsLeast && n.pause.Add(-1) < 0
}

// refuted takes note of an error that says that one of them was not new.
func (n *news) refuted(err error) {
	if failure := (*pgconn.PgError)(nil); errors.As(err, &failure) && failure.Code == uniqueViolation {
		pause := max(n.next.Load(), newsPause)
		n.pause.Store(pause)
		n.next.Store(min(2*pause, newsPauseMax))
	}
}
