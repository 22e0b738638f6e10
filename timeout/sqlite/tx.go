package sqlite

import (
	"context"
	"database/sql"
	"fmt"
	"slices"

	"github.com/heartwheel-go/heartwheel/timeout/engine"
)

// SetTx sets tasks in the caller's transaction, on the caller's own connection to the same file.
// The commit makes the tasks, and a rollback leaves nothing. Any driver for SQLite 3.38 or newer
// will do. Open must have made the tables before. The Err of an answer wraps engine.ErrNotFound
// if there is no such topic.
//
// The transaction should be short, because nobody else writes while it is open. It should begin
// with BEGIN IMMEDIATE, or write before it reads. A running center hears of the tasks soon after
// the commit. An error about an invalid task wraps engine.ErrArgument; then nothing is changed.
// After any other error the caller must roll the transaction back.
func SetTx(ctx context.Context, tx *sql.Tx, tasks []engine.Task) ([]engine.Answer, error) {
	return inTx(ctx, tx, "setting tasks", tasks, set)
}

// MoveTx moves tasks in the caller's transaction, under the rules of SetTx.
func MoveTx(ctx context.Context, tx *sql.Tx, moves []engine.Move) ([]engine.Answer, error) {
	return inTx(ctx, tx, "moving tasks", moves, move)
}

// RemoveTx removes tasks in the caller's transaction, under the rules of SetTx.
func RemoveTx(ctx context.Context, tx *sql.Tx, removals []engine.Removal) ([]engine.Answer, error) {
	return inTx(ctx, tx, "removing tasks", removals, remove)
}

// DoneTx ends a task in the caller's transaction, for the task's handler, under the rules of SetTx: what the handler writes
// and the end of its task are one commit. The context must be the handler's. After the commit return nil, and after a rollback
// return an error. A periodic task waits for its next time. DoneTx returns an error wrapping engine.ErrLeaseLost if the task is
// no longer the handler's: it was set, removed or leased again. Then roll the transaction back.
//
// From DoneTx on nobody extends the lease, and if it ends first, the handler's context does, too. If the handler returns nil
// without a commit, the task runs again after its lease.
func DoneTx(ctx context.Context, tx *sql.Tx) error {
	return engine.SettleAttempt(ctx, func(outcome engine.Outcome) (bool, error) {
		s := &session{on: tx}
		defer func() { _ = s.close() }()
		t, err := existing(ctx, s, outcome.Token.Topic)
		if err != nil {
			return false, err
		}
		settled, err := settle(ctx, s, t, []engine.Outcome{outcome}, now())
		if err != nil {
			return false, fmt.Errorf("timeout/sqlite: ending a task: %w", err)
		}
		return settled[0], nil
	})
}

func inTx[T interface{ Check() error }](ctx context.Context, tx *sql.Tx, what string, things []T, do verb[T, engine.Answer]) ([]engine.Answer, error) {
	for _, thing := range things {
		if err := thing.Check(); err != nil {
			return nil, err
		}
	}
	s := &session{on: tx}
	defer func() { _ = s.close() }() // the transaction closes them, too
	answers := make([]engine.Answer, 0, len(things))
	for part := range slices.Chunk(things, chunk) {
		some, err := do(ctx, s, part)
		if err != nil {
			return nil, fmt.Errorf("timeout/sqlite: %s: %w", what, err)
		}
		answers = append(answers, some...)
	}
	return answers, nil
}
