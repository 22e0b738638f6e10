package timeout

import "context"

// A Caller makes the calls of one kind of Callback. Several goroutines call its methods at the
// same time.
type Caller interface {
	// Check returns an error wrapping ErrArgument if the callback can never be made. It is
	// called when a task or a topic is set.
	Check(Callback) error

	// Call makes a task's call. The context ends with the task's lease. The error is like a
	// Handler's. Each error counts against the target, with five exceptions: ErrAccepted, Again, an
	// error of Answered, an error wrapping ErrArgument (no such call can be made), and any error
	// after ErrLeaseLost or ErrStopping has ended the context. A call that goes on long after its
	// context has ended is given up: that counts against the target, and its later result does not.
	Call(ctx context.Context, task Task, call Callback) error

	// Circuit returns the name of a unit that fails as a whole: for a URL its host. After too
	// many failed calls in a row, none is made to that circuit for a while, but for single trials.
	Circuit(Callback) string
}
