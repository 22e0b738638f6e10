package engine

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

// maxDue is the latest action time, in milliseconds since the epoch: the end of the year 9999.
// A float64, the sort key of Redis, holds it exactly.
const maxDue = 253402300799999

// Key names a task.
type Key struct {
	Topic string `json:"topic"`
	ID    string `json:"id"`
}

// String returns the topic, a slash and the id.
func (k Key) String() string { return k.Topic + "/" + k.ID }

// Task is work to be done at a time. A caller of Set fills in the first group of fields. The
// center fills in the second group, and Set ignores it.
type Task struct {
	// Topic decides the task's handler. It has letters, digits, and after the first character
	// any of ._:- as well. It has at most MaxTopic bytes.
	Topic string `json:"topic"`

	// ID is unique in the topic: setting an existing one replaces that task. It has at most
	// MaxID bytes of UTF-8 without control characters. "." and ".." are refused, since many
	// programs take them out of a path. The ID decides the slot of the task. If a part of it
	// stands in braces, as in "{user-7}/reminder", only the first such part does.
	ID string `json:"id"`

	// Payload is handed to the handler as it is, and is the body of a callback. It has at most
	// MaxPayload bytes.
	Payload []byte `json:"payload,omitempty"`

	// Due is the action time: the handler is not called before the engine's clock says so. It
	// is kept in milliseconds since the epoch, rounded up. A past time is due at once. The zero
	// time means After. A retry leaves Due as it is. After timeout.Again it is the new time, and after a
	// replay the time of the replay.
	Due time.Time `json:"due,omitzero"`

	// After is the time from the call to the action time, by the engine's clock, if Due is
	// zero. Zero means at once. It is rounded up to milliseconds. More than MaxDuration is an error: no time
	// means never, so a task that is not to run is not set.
	After time.Duration `json:"-"`

	// Callback replaces the handler or callback of the topic. Nil means those. Each node with a handler for
	// the topic needs its Caller: see timeout.Config.Callers.
	Callback *Callback `json:"callback,omitempty"`

	// Trace is handed from the setter to the handler, and is sent with each callback. It has the
	// headers Traceparent, Tracestate and Baggage, as far as there are any: see CheckTrace. It is a
	// carrier of OpenTelemetry: propagation.MapCarrier(task.Trace). An empty one is kept as nil.
	Trace map[string]string `json:"trace,omitempty"`

	// Options replace settings of the topic.
	Options Options `json:"options,omitzero"`

	// OnSchedule makes the first time of Topic.Every after now, by the engine's clock, the action time of a set. Due and After must
	// be zero. Without it the zero Due means at once, and the second run is on schedule. It is for a center, and not kept.
	OnSchedule bool `json:"-"`

	// IfAbsent makes a set change nothing if a task of this key waits, runs or is dead.
	IfAbsent bool `json:"-"`

	// KeepDue makes a set keep the Due of a task of this key that is Pending or Running, and the Until of a Pending one: sets for
	// one thing come together in one run, with the payload of the last one, at the time of the first one (debouncing). Due and
	// After count in any other state. As by any set, a run that is under way is cut off, so events more frequent than a run is
	// long keep it from its end. KeepDue can't be with IfAbsent, which changes no such task.
	KeepDue bool `json:"-"`

	// PayloadBytes is the size of a payload left out by Query.OmitPayload. It is zero in all other tasks. A set
	// of a task with PayloadBytes is refused, since it would lose the payload.
	PayloadBytes int `json:"payload_bytes,omitempty"`

	// State is Pending for a waiting task and None for a missing one.
	State State `json:"state,omitzero"`

	// Version changes each time the task is set, moved or replayed. The new version was never
	// used for this key, and is higher than every version answered before that call began.
	// While the task exists, each version is higher than the one before.
	Version int64 `json:"version,omitempty"`

	// Created is the time of the task's set, by the engine's clock, in milliseconds. A set makes a new
	// task, also over another one: Created, Calls and Failures begin again then. Moves, retries, replays
	// and timeout.Again leave Created as it is. Zero is unknown: a program of an earlier version has set
	// the task.
	Created time.Time `json:"created,omitzero"`

	// Attempts is how many times the task was leased since it was set, replayed, or began a new run
	// by timeout.Again, the present one included: 1 in the first call of a handler.
	Attempts int `json:"attempts,omitempty"`

	// Calls is how many times the task was leased since it was set, the present time included. Unlike
	// Attempts it goes on through replays and timeout.Again. It leaves out attempts that were handed
	// back, and so does the log of executions: those not begun, and those that failed since the node
	// cut them off at its own end. So a target may have had more calls than that, if nodes ended
	// during them. An extended lease is the same call. A lease counts even if it ended unsettled. So does one
	// whose task was past its Options.NotAfter, although nobody was called.
	Calls int `json:"calls,omitempty"`

	// Failures is how many of the Calls failed: all but the present one and the successful ones. A call
	// failed, too, if its lease ended unsettled, or if a removal cut it off.
	Failures int `json:"failures,omitempty"`

	// Error is the failure of the last attempt, as text, at most MaxError bytes. After an
	// unsettled lease it is the text of LeaseEnded.
	Error string `json:"error,omitempty"`

	// Until is the end of the lease for a running task, and the time of ending for a done, dead
	// or removed one. For a waiting task it is the time of the next attempt, later than Due
	// after a failure.
	Until time.Time `json:"until,omitzero"`

	// Node is the node that leased the task last.
	Node string `json:"node,omitempty"`
}

// MaxError is how many bytes of an error's text are kept.
const MaxError = 1000

// LeaseEnded returns the Error of a task whose lease ended unsettled, in an attempt of that node. It is for engines.
func LeaseEnded(node string, attempt int) string {
	return fmt.Sprintf("timeout: the lease of %s ended in attempt %d", node, attempt)
}

// Key returns the task's topic and id.
func (t Task) Key() Key { return Key{t.Topic, t.ID} }

// Check returns an error wrapping ErrArgument if no engine could keep the task.
func (t Task) Check() error {
	if err := t.Key().Check(); err != nil {
		return err
	}
	if len(t.Payload) > MaxPayload {
		return fmt.Errorf("%w: payload of %v has %d bytes, must have at most %d", ErrArgument, t.Key(), len(t.Payload), MaxPayload)
	}
	if t.PayloadBytes != 0 {
		return fmt.Errorf("%w: payload of %v is left out, and PayloadBytes is %d, must be 0", ErrArgument, t.Key(), t.PayloadBytes)
	}
	if t.After < 0 {
		return fmt.Errorf("%w: After %v of %v, must not be negative", ErrArgument, t.After, t.Key())
	}
	if t.After > MaxDuration {
		return fmt.Errorf("%w: After %v of %v, must be at most %v", ErrArgument, t.After, t.Key(), MaxDuration)
	}
	if err := CheckDue(t.Due); err != nil {
		return err
	}
	if t.OnSchedule && (!t.Due.IsZero() || t.After != 0) {
		return fmt.Errorf("%w: OnSchedule of %v with Due %v and After %v, must be without both", ErrArgument, t.Key(), t.Due, t.After)
	}
	if t.KeepDue && t.IfAbsent {
		return fmt.Errorf("%w: KeepDue and IfAbsent of %v, must be one of them", ErrArgument, t.Key())
	}
	if err := CheckTrace(t.Trace); err != nil {
		return err
	}
	if err := t.Options.Check(); err != nil {
		return fmt.Errorf("%w (task %v)", err, t.Key())
	}
	if !t.Options.NotAfter.IsZero() && t.Due.After(t.Options.NotAfter) {
		return fmt.Errorf("%w: action time %v of %v, must not be after NotAfter %v", ErrArgument, t.Due, t.Key(), t.Options.NotAfter)
	}
	if t.Callback != nil {
		return t.Callback.Check()
	}
	return nil
}

// Count fills in Calls and Failures. The arguments are those of the runs before the present one, and
// Attempts and State are those of the present one. It is for engines.
func (t *Task) Count(calls, failures int) {
	t.Calls, t.Failures = calls+t.Attempts, failures+t.Attempts
	if t.State == Running || t.State == Done {
		t.Failures--
	}
}

// Check returns an error wrapping ErrArgument if the key is invalid.
func (k Key) Check() error {
	if err := CheckTopic(k.Topic); err != nil {
		return err
	}
	if k.ID == "" || len(k.ID) > MaxID {
		return fmt.Errorf("%w: id has %d bytes, must have 1 to %d", ErrArgument, len(k.ID), MaxID)
	}
	if !isText(k.ID) {
		return fmt.Errorf("%w: id %q, must be UTF-8 without control characters", ErrArgument, k.ID)
	}
	if k.ID == "." || k.ID == ".." { // in a path, as of a URL, it would name another thing
		return fmt.Errorf("%w: id %q, must be neither . nor .. but another one", ErrArgument, k.ID)
	}
	return nil
}

// isText reports whether s is UTF-8 without control characters.
func isText(s string) bool {
	return utf8.ValidString(s) && !strings.ContainsFunc(s, func(r rune) bool { return r < ' ' || r == 0x7f })
}

// Reserved is the topic in which package sharded marks its shards. A center refuses it.
const Reserved = "heartwheel.sharded"

// CheckTopic returns an error wrapping ErrArgument if name is no valid name of a topic.
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

// CheckDue returns an error wrapping ErrArgument if the action time is before 1970 or after the
// year 9999. The zero time is valid.
func CheckDue(due time.Time) error {
	if due.IsZero() {
		return nil
	}
	if due.Year() < 1970 || due.Year() > 9999 || due.UnixMilli() < 0 || Millis(due) > maxDue {
		return fmt.Errorf("%w: action time %v, must be in the years 1970 to 9999", ErrArgument, due)
	}
	return nil
}

// Millis returns milliseconds since the epoch, rounded up so that nothing is due before t.
func Millis(t time.Time) int64 {
	ms := t.UnixMilli()
	if t.Nanosecond()%int(time.Millisecond) != 0 {
		ms++
	}
	return ms
}

// DueAt returns the action time of a task that is set at now, both in milliseconds since the
// epoch. After never leads beyond the year 9999. It is for engines.
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
