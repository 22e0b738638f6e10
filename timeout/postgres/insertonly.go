package postgres

import "sync/atomic"

const (
	// insertLeast is the smallest batch to be tried as new tasks.
	insertLeast = 100

	// insertPause is the number of such batches not tried after the first wrong guess. It doubles
	// with each further one, up to insertPauseMax: each is an error in the server's log.
	insertPause    = 64
	insertPauseMax = 1 << 16

	uniqueViolation = "23505"
)

// insertOnly guesses whether all tasks of a batch are new. Most are, and inserting them costs less if
// PostgreSQL need not look for old rows.
type insertOnly struct{ pause, next atomic.Int64 }

// likely reports whether to try a batch of that size as new tasks.
func (o *insertOnly) likely(tasks int) bool {
	return tasks >= insertLeast && o.pause.Add(-1) < 0
}

// refuted notes an error caused by a task that was not new.
func (o *insertOnly) refuted(err error) {
	if codeOf(err) == uniqueViolation {
		pause := max(o.next.Load(), insertPause)
		o.pause.Store(pause)
		o.next.Store(min(2*pause, insertPauseMax))
	}
}
