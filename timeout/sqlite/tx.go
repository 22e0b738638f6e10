package sqlite

import (
	"context"
	"database/sql"
	"fmt"

	"github.com/heartwheel-go/heartwheel/timeout/engine"
)

// SetTx sets tasks in a transaction of the caller's, on a connection of the caller's to the
// same file: what is set is there if the transaction is committed, and not if it is not. The
// driver may be any one for SQLite 3.38 or newer. The file must have been opened by Open
// before, and the topics must be there: an answer's Err is ErrNotFound where one is not.
//
// The transaction should be short, and begin with BEGIN IMMEDIATE or write before it reads:
// while it is open, nobody else writes. The centre hears of tasks that are due at once when
// it looks next, so they may be late by its Poll. The error wraps engine.ErrArgument for
// tasks that can't be kept, and nothing is changed then. Other errors leave the transaction
// to be rolled back.
func SetTx(ctx context.Context, tx *sql.Tx, tasks []engine.Task) ([]engine.Answer, error) {
	for _, task := range tasks {
		if err := task.Check(); err != nil {
			return nil, err
		}
	}
	return inTx(ctx, tx, "setting tasks", tasks, set)
}

// MoveTx is to Move what SetTx is to Set.
func MoveTx(ctx context.Context, tx *sql.Tx, moves []engine.Move) ([]engine.Answer, error) {
	for _, m := range moves {
		task := engine.Task{Topic: m.Topic, ID: m.ID, Due: m.Due, After: m.After}
		if err := task.Check(); err != nil {
			return nil, err
		}
	}
	return inTx(ctx, tx, "moving tasks", moves, move)
}

// RemoveTx is to Remove what SetTx is to Set.
func RemoveTx(ctx context.Context, tx *sql.Tx, removals []engine.Removal) ([]engine.Answer, error) {
	for _, removal := range removals {
		if err := removal.Check(); err != nil {
			return nil, err
		}
	}
	return inTx(ctx, tx, "removing tasks", removals, remove)
}

func inTx[T any](ctx context.Context, tx *sql.Tx, what string, things []T, do verb[T]) ([]engine.Answer, error) {
	answers := make([]engine.Answer, 0, len(things))
	for len(answers) < len(things) {
		part := things[len(answers):min(len(answers)+chunk, len(things))]
		some, err := do(ctx, tx, part)
		if err != nil {
			return nil, fmt.Errorf("timeout/sqlite: %s: %w", what, err)
		}
		answers = append(answers, some...)
	}
	return answers, nil
}
