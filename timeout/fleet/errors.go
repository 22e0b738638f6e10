package fleet

import "errors"

var (
	// ErrArgument says that an argument is out of range. The wrapping error names the value and
	// the limit.
	ErrArgument = errors.New("fleet: invalid argument")

	// ErrClosed says that the node has been closed. Register says ErrDraining then.
	ErrClosed = errors.New("fleet: closed")

	// ErrDraining says that the node takes no new sessions: after Node.Drain or Node.Close.
	ErrDraining = errors.New("fleet: draining")

	// ErrNotFound says that there is no such session: nobody has it, or it has ended.
	ErrNotFound = errors.New("fleet: no such session")

	// ErrFull says that Redis has no room for more sessions. Existing sessions stay.
	ErrFull = errors.New("fleet: Redis is full")
)
