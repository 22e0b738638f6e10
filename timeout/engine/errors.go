package engine

import (
	"errors"
	"fmt"
)

var (
	// ErrArgument is the error for an argument out of range. The error wrapping it names the
	// value and the limit.
	ErrArgument = errors.New("timeout: invalid argument")

	// ErrNotFound is the error for a missing task or topic.
	ErrNotFound = errors.New("timeout: not found")

	// ErrClosed is the error after Close of the center or the engine.
	ErrClosed = errors.New("timeout: closed")

	// ErrConflict is the error for a change that an existing topic can't make: its number of
	// slots can grow and not shrink.
	ErrConflict = errors.New("timeout: conflict")

	// ErrChanged is the error for a change on condition if the topic is not as the condition says. It wraps ErrConflict.
	ErrChanged = fmt.Errorf("%w with a change by somebody else", ErrConflict)

	// ErrForged is the error for a Token with a Proof by nobody who may make one: see
	// timeout.Config.FeedbackKeys.
	ErrForged = errors.New("timeout: forged token")

	// ErrLeaseLost is the error for a task that is no longer the handler's: it was set, removed, settled or leased again.
	ErrLeaseLost = errors.New("timeout: lease lost")

	// ErrPartial is the error if a part of the engine does not answer: see Engine.Get, Engine.Lease
	// and Engine.Extend.
	ErrPartial = errors.New("timeout: a part of the engine does not answer")

	// ErrUnsupported is the error for a call that this engine does not support.
	ErrUnsupported = errors.New("timeout: not supported by this engine")

	// ErrFull is the error of an engine without room for more, such as Redis out of memory or a
	// full disk. It is also the error if there are as many topics as timeout.Config.MaxTopics
	// allows. Existing tasks can still be handled.
	ErrFull = errors.New("timeout: engine full")
)

// IsTrouble reports whether an error is a failure of an engine, rather than its answer. It is for engines
// around other engines. Nil is no trouble.
func IsTrouble(err error) bool {
	for _, answer := range []error{ErrArgument, ErrNotFound, ErrConflict, ErrUnsupported, ErrFull, ErrClosed} {
		if errors.Is(err, answer) {
			return false
		}
	}
	return err != nil
}
