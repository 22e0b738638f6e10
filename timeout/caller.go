package timeout

import "context"

// A Caller makes the calls of one kind of Callback. Several goroutines call its methods at the
// same time.
type Caller interface {
	// Check returns an error wrapping ErrArgument if the callback can never be made. It is
	// called when a task or a topic is set.
	Check(Callback) error

	// Call makes a task's call. The context ends with the task's lease. The error is like that
	// of a Handler. Each error counts against the target, except for ErrAccepted and for errors
	// wrapping ErrArgument: those say that no such call can be made.
	Call(ctx context.Context, task Task, call Callback) error

	// Circuit returns the name of a unit that fails as a whole: for a URL its host. After too
	// many failed calls in a row, none is made to that circuit for a while.
	Circuit(Callback) string
}
