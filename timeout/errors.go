package timeout

import "errors"

var (
	// ErrArgument says that an argument is outside of what is possible. The error that
	// wraps it names the value and the limit.
	ErrArgument = errors.New("timeout: invalid argument")

	// ErrNotFound says that there is no such task or topic.
	ErrNotFound = errors.New("timeout: not found")

	// ErrClosed says that the centre or the engine has been closed.
	ErrClosed = errors.New("timeout: closed")

	// ErrConflict says that a topic is there already, and can't be what was asked for: its
	// number of slots can grow and not shrink.
	ErrConflict = errors.New("timeout: conflict")

	// ErrFenced says that the slots were given to somebody else since: see Ask.Term.
	ErrFenced = errors.New("timeout: fenced")

	// ErrPartial says that a part of the engine does not answer: see Engine.Get and
	// Engine.Extend.
	ErrPartial = errors.New("timeout: a part of the engine does not answer")

	// ErrUnsupported says that this engine can't do that at all.
	ErrUnsupported = errors.New("timeout: not supported by this engine")

	// ErrFull says that the engine has no room for more: Redis is out of memory, the disk
	// is full; or that there are as many topics as there may be, see Config.MaxTopics. What
	// is there can still be handled.
	ErrFull = errors.New("timeout: engine full")
)
