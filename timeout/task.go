package timeout

import (
	"fmt"
	"strings"
	"time"
	"unicode/utf8"
)

// Limits of a task. An engine may have narrower ones and say so in the error.
const (
	MaxTopic   = 100     // bytes of a topic's name
	MaxID      = 255     // bytes of an id
	MaxPayload = 1 << 20 // bytes of a payload
)

// maxDue is the latest action time, in milliseconds since the epoch: the end of the year
// 9999. A float64, which is what Redis sorts by, has it exactly.
const maxDue = 253402300799999

// Key names a task.
type Key struct {
	Topic string `json:"topic"`
	ID    string `json:"id"`
}

// String returns the topic, a slash and the id.
func (k Key) String() string { return k.Topic + "/" + k.ID }

// Task is something to be done at a time. Who sets one fills in the first group of fields;
// the second is the centre's, and is ignored there.
type Task struct {
	// Topic says who handles the task: letters, digits, and any of ._:- after the first,
	// at most MaxTopic bytes.
	Topic string `json:"topic"`

	// ID is unique in the topic: setting one that is there replaces it. At most MaxID bytes
	// of UTF-8 without control characters, and neither "." nor "..", which many a program
	// takes out of a path. It decides the slot that the task is in; where a part of it stands
	// in braces, as in "{user-7}/reminder", only the first such part does.
	ID string `json:"id"`

	// Payload is handed to the handler as it is, and is the body of a callback. At most
	// MaxPayload bytes.
	Payload []byte `json:"payload,omitempty"`

	// Due is the action time: the handler is not called before the engine's clock says so.
	// It is kept in milliseconds since the epoch, rounded up. One that has passed is due at
	// once. The zero time means After.
	Due time.Time `json:"due,omitzero"`

	// After is the time from the call to the action time, by the engine's clock, where Due
	// is zero. Zero means at once. It is rounded up to milliseconds.
	After time.Duration `json:"-"`

	// Callback says what is called in place of the topic's handler or callback; nil means
	// those.
	Callback *Callback `json:"callback,omitempty"`

	// IfAbsent lets a set change nothing where there is a task of this key that waits, runs
	// or is dead.
	IfAbsent bool `json:"-"`

	// State is Pending for a task that waits and None for one that is not there.
	State State `json:"state,omitzero"`

	// Version is another one each time that the task is set, moved or replayed: one that no
	// task of this key ever had, and higher than every one that was answered before that call
	// began. As long as the task is there, it is higher than the one before, too.
	Version int64 `json:"version,omitempty"`

	// Attempts is how many times the task was leased since it was set, the present one
	// included: 1 in the first call of a handler.
	Attempts int `json:"attempts,omitempty"`

	// Error is how the last attempt failed, as text, at most MaxError bytes.
	Error string `json:"error,omitempty"`

	// Until is when the lease of a running task ends, and when one that is done, dead or
	// removed became that. For one that waits it is when it is due next, which is later
	// than Due after a failure.
	Until time.Time `json:"until,omitzero"`

	// Node is who has leased the task last.
	Node string `json:"node,omitempty"`
}

// MaxError is how many bytes of the text of an error are kept.
const MaxError = 1000

// Key returns the task's topic and id.
func (t Task) Key() Key { return Key{t.Topic, t.ID} }

// Check returns an error, which wraps ErrArgument, where no engine could keep the task.
func (t Task) Check() error {
	if err := t.Key().Check(); err != nil {
		return err
	}
	if len(t.Payload) > MaxPayload {
		return fmt.Errorf("%w: payload of %v has %d bytes, must have at most %d", ErrArgument, t.Key(), len(t.Payload), MaxPayload)
	}
	if t.After < 0 {
		return fmt.Errorf("%w: After %v of %v, must not be negative", ErrArgument, t.After, t.Key())
	}
	if err := CheckDue(t.Due); err != nil {
		return err
	}
	if t.Callback != nil {
		return t.Callback.Check()
	}
	return nil
}

// Check returns an error, which wraps ErrArgument, where there can be no such task.
func (k Key) Check() error {
	if err := CheckTopic(k.Topic); err != nil {
		return err
	}
	if k.ID == "" || len(k.ID) > MaxID {
		return fmt.Errorf("%w: id has %d bytes, must have 1 to %d", ErrArgument, len(k.ID), MaxID)
	}
	if !utf8.ValidString(k.ID) || strings.ContainsFunc(k.ID, func(r rune) bool { return r < ' ' || r == 0x7f }) {
		return fmt.Errorf("%w: id %q, must be UTF-8 without control characters", ErrArgument, k.ID)
	}
	if k.ID == "." || k.ID == ".." { // in a path, as of a URL, it would name another thing
		return fmt.Errorf("%w: id %q, must be neither . nor .. but another one", ErrArgument, k.ID)
	}
	return nil
}

// CheckTopic returns an error, which wraps ErrArgument, where no topic can have that name.
func CheckTopic(name string) error {
	if name == "" || len(name) > MaxTopic {
		return fmt.Errorf("%w: topic has %d bytes, must have 1 to %d", ErrArgument, len(name), MaxTopic)
	}
	for i, r := range name {
		letter := 'a' <= r && r <= 'z' || 'A' <= r && r <= 'Z' || '0' <= r && r <= '9'
		if !letter && (i == 0 || !strings.ContainsRune("._:-", r)) {
			return fmt.Errorf("%w: topic %q, must be letters, digits and ._:- (not in the first place)", ErrArgument, name)
		}
	}
	return nil
}

// CheckDue returns an error, which wraps ErrArgument, for an action time that can't be kept:
// one before 1970, other than the zero time, or after the year 9999.
func CheckDue(due time.Time) error {
	if due.IsZero() {
		return nil
	}
	if due.Year() < 1970 || due.Year() > 9999 || due.UnixMilli() < 0 || Millis(due) > maxDue {
		return fmt.Errorf("%w: action time %v, must be in the years 1970 to 9999", ErrArgument, due)
	}
	return nil
}

// Millis returns milliseconds since the epoch, rounded up: so nothing is due before t.
func Millis(t time.Time) int64 {
	ms := t.UnixMilli()
	if t.Nanosecond()%int(time.Millisecond) != 0 {
		ms++
	}
	return ms
}

// DueAt returns when a task that is set at now, in milliseconds since the epoch, is due: in
// the same unit, and never after the year 9999. It is for engines.
func (t Task) DueAt(now int64) int64 {
	if !t.Due.IsZero() {
		return Millis(t.Due)
	}
	return min(now+CeilMillis(t.After), maxDue)
}

// CeilMillis returns a duration in milliseconds, rounded up.
func CeilMillis(d time.Duration) int64 {
	ms := d.Milliseconds()
	if d > time.Duration(ms)*time.Millisecond {
		ms++
	}
	return ms
}
