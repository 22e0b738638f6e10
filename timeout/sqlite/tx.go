package sqlite

import (
	"context"
	"database/sql"
	"errors"

	"github.com/heartwheel-go/heartwheel/timeout"
)

// SetTx is Set in a transaction of the same file, with whose other changes the tasks appear,
// or not at all. They are checked first: the error wraps timeout.ErrArgument then. Where the
// topic of one is not there the error is ErrNotFound, and it is for the caller to roll back.
// The transaction must be one that writes: see the package's comment. A centre that waits is
// not told: it finds the tasks within its Config.Poll.
func (e *Engine) SetTx(ctx context.Context, tx *sql.Tx, tasks []timeout.Task) ([]timeout.Answer, error) {
	for _, task := range tasks {
		if err := task.Check(); err != nil {
			return nil, err
		}
	}
	return e.inTx(ctx, tx, func(within func(func(*session) error) error) ([]timeout.Answer, error) {
		answers, err := e.setWith(tasks, within)
		for _, answer := range answers {
			err = errors.Join(err, answer.Err)
		}
		return answers, err
	})
}

// MoveTx is Move in a transaction of the same file: see SetTx.
func (e *Engine) MoveTx(ctx context.Context, tx *sql.Tx, moves []timeout.Move) ([]timeout.Answer, error) {
	for _, move := range moves {
		if err := errors.Join(move.Check(), timeout.CheckDue(move.Due)); err != nil {
			return nil, err
		}
	}
	return e.inTx(ctx, tx, func(within func(func(*session) error) error) ([]timeout.Answer, error) {
		return e.moveWith(moves, within)
	})
}

// RemoveTx is Remove in a transaction of the same file: see SetTx.
func (e *Engine) RemoveTx(ctx context.Context, tx *sql.Tx, keys []timeout.Key) ([]timeout.Answer, error) {
	for _, key := range keys {
		if err := key.Check(); err != nil {
			return nil, err
		}
	}
	return e.inTx(ctx, tx, func(within func(func(*session) error) error) ([]timeout.Answer, error) {
		return e.removeWith(keys, within)
	})
}

func (e *Engine) inTx(ctx context.Context, tx *sql.Tx, do func(within func(func(*session) error) error) ([]timeout.Answer, error)) (answers []timeout.Answer, err error) {
	if err := context.Cause(ctx); err != nil {
		return nil, err
	}
	s := &session{names: e.names, prepare: tx.PrepareContext, kept: make(map[string]*sql.Stmt)}
	defer func() { err = errors.Join(err, s.close()) }()
	return do(func(work func(*session) error) error { return e.wrap(work(s)) })
}
