package timeout

import (
	"context"
	"fmt"
	"time"
)

// MaxCallback is how many bytes the texts of a callback may have together.
const MaxCallback = 8 << 10

// MaxFinal is how many statuses a callback can call final.
const MaxFinal = 16

// Callback says what is called when a task is due, for tasks that no Go function handles.
type Callback struct {
	// Kind names the Caller that makes the call: "http", "nats", "redis".
	Kind string `json:"kind"`

	// Target is where it goes: a URL, a subject, a stream.
	Target string `json:"target"`

	// Method is that of an HTTP call. Empty means POST.
	Method string `json:"method,omitempty"`

	// Header are headers, or what the kind has in their place.
	Header map[string]string `json:"header,omitempty"`

	// Timeout is how long the call may take, at most MaxDuration. Zero means the caller's
	// default.
	Timeout time.Duration `json:"timeout,omitempty"`

	// Final lists HTTP statuses, beside 410, after which a task is dead at once: 400 to 599, at
	// most MaxFinal of them. All others but 2xx and redirects are tried again.
	Final []int `json:"final,omitempty"`
}

// Check returns an error, which wraps ErrArgument, where there can be no such callback.
// Whether the target is a good one is checked by its Caller.
func (c Callback) Check() error {
	size := len(c.Kind) + len(c.Target) + len(c.Method)
	for name, value := range c.Header {
		size += len(name) + len(value)
	}
	switch {
	case c.Kind == "" || c.Target == "":
		return fmt.Errorf("%w: callback with kind %q and target %q, must have both", ErrArgument, c.Kind, c.Target)
	case size > MaxCallback:
		return fmt.Errorf("%w: callback has %d bytes, must have at most %d", ErrArgument, size, MaxCallback)
	case c.Timeout < 0:
		return fmt.Errorf("%w: Timeout %v of a callback, must not be negative", ErrArgument, c.Timeout)
	case c.Timeout > MaxDuration:
		return fmt.Errorf("%w: Timeout %v of a callback, must be at most %v", ErrArgument, c.Timeout, MaxDuration)
	case len(c.Final) > MaxFinal:
		return fmt.Errorf("%w: Final of a callback has %d statuses, must have at most %d", ErrArgument, len(c.Final), MaxFinal)
	}
	for _, status := range c.Final {
		if status < 400 || status > 599 {
			return fmt.Errorf("%w: Final %d of a callback, must be 400 to 599", ErrArgument, status)
		}
	}
	return nil
}

// A Caller makes the calls of one kind of Callback. Its methods are called by several
// goroutines at the same time.
type Caller interface {
	// Check returns an error, which wraps ErrArgument, for a callback that can never be
	// made: it is asked when a task or a topic is set.
	Check(Callback) error

	// Call makes a task's call. The context ends with the task's lease. The error is like
	// that of a Handler. Each error counts against the target, but for ErrAccepted, and for
	// errors that wrap ErrArgument: those say that no such call can be made.
	Call(ctx context.Context, task Task, call Callback) error

	// Circuit returns what fails together: for a URL its host. Where too many calls of one
	// circuit have failed, none is made for a while.
	Circuit(Callback) string
}
