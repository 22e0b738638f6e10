package engine

import "fmt"

// State is the stage of a task's life.
type State uint8

// The states. A task is Pending when it is set, Running while it is leased, and Pending again
// after a failed attempt or for another run: see timeout.Again. It ends as Done, Dead or Removed.
// A task that is Done or Removed is kept for Topic.Retain. A Dead one is kept for
// Topic.RetainDead, and can be replayed until then.
const (
	None    State = iota // there is no such task
	Pending              // waits for its action time or for the next attempt
	Running              // is leased
	Done                 // its handler has succeeded
	Dead                 // has failed for the last time
	Removed              // was removed while Pending, Running or Dead
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

// Ended reports whether a task of that state stays as it is until somebody changes it.
func (s State) Ended() bool { return s == Done || s == Dead || s == Removed }
