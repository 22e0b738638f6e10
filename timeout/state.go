package timeout

import "fmt"

// State is where a task is on its way.
type State uint8

// The states. A task is Pending when it is set, Running while it is leased, and Pending
// again where an attempt failed. It ends in one of the other three, which are kept for
// Topic.Retain, and for Topic.RetainDead if they are dead: they can be replayed for so long.
const (
	None    State = iota // there is no such task
	Pending              // waits for its action time, or for the next attempt
	Running              // is leased
	Done                 // its handler has succeeded
	Dead                 // has failed for the last time
	Removed              // was removed while it waited, ran or was dead
)

var stateNames = [...]string{"none", "pending", "running", "done", "dead", "removed"}

// String returns the state's name in lower case.
func (s State) String() string {
	if int(s) < len(stateNames) {
		return stateNames[s]
	}
	return fmt.Sprintf("State(%d)", s)
}

// MarshalText is String.
func (s State) MarshalText() ([]byte, error) { return []byte(s.String()), nil }

// UnmarshalText is ParseState.
func (s *State) UnmarshalText(text []byte) error {
	parsed, err := ParseState(string(text))
	*s = parsed
	return err
}

// ParseState returns the state of that name. The error wraps ErrArgument.
func ParseState(name string) (State, error) {
	for i, known := range stateNames {
		if name == known {
			return State(i), nil
		}
	}
	return None, fmt.Errorf("%w: state %q, must be one of %q", ErrArgument, name, stateNames)
}

// Ended reports whether nothing will happen any more to a task of that state by itself.
func (s State) Ended() bool { return s == Done || s == Dead || s == Removed }
