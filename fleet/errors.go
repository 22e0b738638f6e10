package fleet

import "errors"

var (
	// ErrArgument means an argument out of range. The wrapping error names the value and the
	// limit.
	ErrArgument = errors.New("fleet: invalid argument")

	// ErrClosed means a closed node. Its Register returns ErrDraining instead.
	ErrClosed = errors.New("fleet: closed")

	// ErrDraining means a node closed to new sessions: after Node.Drain or Node.Close.
	ErrDraining = errors.New("fleet: draining")

	// ErrNotFound means no such session: nobody has it, or it has ended.
	ErrNotFound = errors.New("fleet: no such session")

	// ErrFull means no room for more sessions in Redis. Existing sessions stay.
	ErrFull = errors.New("fleet: Redis is full")
)
