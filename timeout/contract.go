package timeout

import "github.com/heartwheel-go/heartwheel/timeout/engine"

// Programs and engines share these types. Package engine defines them, and has the limits of what
// can be set and the defaults of a Topic.
type (
	// Task is work to be done at a time.
	Task = engine.Task

	// Options are the settings of a single task in place of its topic's.
	Options = engine.Options

	// Key names a task: by its topic, and by its id there.
	Key = engine.Key

	// Topic is a queue of tasks, with its settings: slots, retries, lease, limits, retention.
	Topic = engine.Topic

	// Callback describes the call to make when a task is due, for tasks without a Go handler.
	Callback = engine.Callback

	// State is the stage of a task's life: None, Pending, Running, Done, Dead or Removed.
	State = engine.State

	// Answer is the result of a call for one task.
	Answer = engine.Answer

	// Move is a new action time for a task.
	Move = engine.Move

	// Removal names a task to remove, perhaps only in a certain state or version.
	Removal = engine.Removal

	// Query asks for a Page of the tasks of one topic and state.
	Query = engine.Query

	// Page is a part of a list of tasks.
	Page = engine.Page

	// Counts are how many tasks a topic has in each state.
	Counts = engine.Counts

	// Execution is an attempt at a task, as in the log of executions.
	Execution = engine.Execution

	// Leased is a task leased by Center.Pull, with the token of its lease.
	Leased = engine.Leased

	// Token proves a lease. Whoever has it can tell the outcome: see Center.Feedback.
	Token = engine.Token
)

// The states of a task.
const (
	None    = engine.None    // there is no such task
	Pending = engine.Pending // waits for its action time, or for the next attempt
	Running = engine.Running // is leased
	Done    = engine.Done    // its handler has succeeded
	Dead    = engine.Dead    // has failed for the last time
	Removed = engine.Removed // was removed while Pending, Running or Dead
)

// The errors of a center and of engines. All that they return wraps one of them, or is the error of
// a store.
var (
	// ErrArgument is the error for an argument out of range. The error wrapping it names the
	// value and the limit.
	ErrArgument = engine.ErrArgument

	// ErrNotFound is the error for a missing task or topic.
	ErrNotFound = engine.ErrNotFound

	// ErrClosed is the error after Close of the center or the engine.
	ErrClosed = engine.ErrClosed

	// ErrConflict is the error for a change that an existing topic can't make.
	ErrConflict = engine.ErrConflict

	// ErrChanged is the error of Center.ChangeTopicIf if the topic is not as it was. It wraps ErrConflict.
	ErrChanged = engine.ErrChanged

	// ErrUnsupported is the error for a call that this engine does not support.
	ErrUnsupported = engine.ErrUnsupported

	// ErrFull is the error of an engine without room for more. Existing tasks can still be
	// handled.
	ErrFull = engine.ErrFull

	// ErrForged is the error for a token that none of Config.FeedbackKeys has signed.
	ErrForged = engine.ErrForged

	// ErrPartial is the error if a part of the engine does not answer: see Center.GetAll.
	ErrPartial = engine.ErrPartial
)

// ParseToken reads the text of Token.String. It does not check the Proof. The error wraps
// ErrArgument.
func ParseToken(text string) (Token, error) { return engine.ParseToken(text) }
