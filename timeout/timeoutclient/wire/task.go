package wire

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"time"
	"unicode/utf8"

	"github.com/heartwheel-go/heartwheel/timeout/engine"
)

// When is an action time: Due or After, or neither for at once.
type When struct {
	Due   Instant   `json:"due,omitzero"`
	After *Duration `json:"after,omitempty"`
}

// Read returns the time as a center takes it. The error wraps engine.ErrArgument.
func (w When) Read() (due time.Time, after time.Duration, err error) {
	if w.After != nil {
		after = time.Duration(*w.After)
		if !w.Due.IsZero() {
			err = fmt.Errorf("%w: due %v and after %v, must be one of them", engine.ErrArgument, w.Due.Time, after)
		}
	}
	return w.Due.Time, after, err
}

// Options are engine.Options.
type Options struct {
	Retries    int               `json:"retries,omitempty"`
	Backoff    Duration          `json:"backoff,omitzero"`
	BackoffMax Duration          `json:"backoff_max,omitzero"`
	Timeout    Duration          `json:"timeout,omitzero"`
	NotAfter   Instant           `json:"not_after,omitzero"`
	Metadata   map[string]string `json:"metadata,omitempty"`
}

// Read returns the options as a center takes them.
func (o Options) Read() engine.Options {
	return engine.Options{
		Retries: o.Retries, Backoff: time.Duration(o.Backoff), BackoffMax: time.Duration(o.BackoffMax), Timeout: time.Duration(o.Timeout),
		NotAfter: o.NotAfter.Time, Metadata: o.Metadata,
	}
}

// OptionsOf returns options as JSON.
func OptionsOf(o engine.Options) Options {
	return Options{
		Retries: o.Retries, Backoff: Duration(o.Backoff), BackoffMax: Duration(o.BackoffMax), Timeout: Duration(o.Timeout),
		NotAfter: Instant{o.NotAfter}, Metadata: o.Metadata,
	}
}

// Setting is a task to be set, without its key.
type Setting struct {
	When
	OnSchedule bool `json:"on_schedule,omitempty"`
	KeepDue    bool `json:"keep_due,omitempty"`
	Options

	// Payload is any JSON value, kept as it was written. PayloadBase64 is for anything else.
	Payload       json.RawMessage `json:"payload,omitempty"`
	PayloadBase64 *[]byte         `json:"payload_base64,omitempty"`

	Callback *Callback `json:"callback,omitempty"`

	// Trace is engine.Task's. Without it a server takes that of the request.
	Trace map[string]string `json:"trace,omitempty"`
}

// Task returns the task to be set under a key. The error wraps engine.ErrArgument.
func (s Setting) Task(key engine.Key, ifAbsent bool) (engine.Task, error) {
	task := engine.Task{Topic: key.Topic, ID: key.ID, Payload: s.Payload, IfAbsent: ifAbsent, Callback: s.Callback.Read(), Trace: s.Trace, OnSchedule: s.OnSchedule, KeepDue: s.KeepDue, Options: s.Options.Read()}
	var err error
	if task.Due, task.After, err = s.When.Read(); err != nil {
		return task, err
	}
	if s.PayloadBase64 != nil {
		if s.Payload != nil {
			return task, fmt.Errorf("%w: payload and payload_base64, must be one of them", engine.ErrArgument)
		}
		task.Payload = *s.PayloadBase64
	}
	return task, task.Check()
}

// KeyedSetting is a setting in a batch.
type KeyedSetting struct {
	engine.Key
	Setting
	IfAbsent bool `json:"if_absent,omitempty"`
}

// KeyedMove is a move in a batch.
type KeyedMove struct {
	engine.Key
	When
}

// Callback is engine.Callback.
type Callback struct {
	Kind    string            `json:"kind"`
	Target  string            `json:"target"`
	Method  string            `json:"method,omitempty"`
	Header  map[string]string `json:"header,omitempty"`
	Timeout Duration          `json:"timeout,omitzero"`
	Final   []int             `json:"final,omitempty"`
}

// Read returns the callback as a center takes it. Nil stays nil.
func (c *Callback) Read() *engine.Callback {
	if c == nil {
		return nil
	}
	return &engine.Callback{Kind: c.Kind, Target: c.Target, Method: c.Method, Header: c.Header, Timeout: time.Duration(c.Timeout), Final: c.Final}
}

// CallbackOf returns the callback as JSON. Nil stays nil.
func CallbackOf(c *engine.Callback) *Callback {
	if c == nil {
		return nil
	}
	return &Callback{Kind: c.Kind, Target: c.Target, Method: c.Method, Header: c.Header, Timeout: Duration(c.Timeout), Final: c.Final}
}

// Task is a task in its present state.
type Task struct {
	engine.Key
	State    engine.State `json:"state"`
	Due      Instant      `json:"due,omitzero"`
	Until    Instant      `json:"until,omitzero"`
	Version  int64        `json:"version,omitempty"`
	Created  Instant      `json:"created,omitzero"`
	Attempts int          `json:"attempts,omitempty"`
	Calls    int          `json:"calls,omitempty"`
	Failures int          `json:"failures,omitempty"`
	Error    string       `json:"error,omitempty"`
	Node     string       `json:"node,omitempty"`
	Callback *Callback    `json:"callback,omitempty"`

	Trace map[string]string `json:"trace,omitempty"`
	Options

	// PayloadBytes is the size of the payload. Lists have it in place of the payload.
	PayloadBytes  int             `json:"payload_bytes,omitempty"`
	Payload       json.RawMessage `json:"payload,omitempty"`
	PayloadBase64 []byte          `json:"payload_base64,omitempty"`
}

// TaskOf returns the task as JSON.
func TaskOf(t engine.Task) Task {
	task := Task{
		Key: t.Key(), State: t.State, Due: Instant{t.Due}, Until: Instant{t.Until}, Version: t.Version,
		Created: Instant{t.Created}, Attempts: t.Attempts, Calls: t.Calls, Failures: t.Failures, Error: t.Error, Node: t.Node,
		Callback: CallbackOf(t.Callback), Trace: t.Trace, Options: OptionsOf(t.Options), PayloadBytes: t.PayloadBytes,
	}
	if isJSON(t.Payload) {
		task.Payload = t.Payload
	} else {
		task.PayloadBase64 = t.Payload
	}
	return task
}

// isJSON reports whether a payload can be shown as a JSON value, unchanged but for the space
// around and between its parts.
func isJSON(payload []byte) bool {
	return len(bytes.TrimSpace(payload)) > 0 && utf8.Valid(payload) && json.Valid(payload) && fitsInside(payload)
}

// fitsInside reports whether JSON can be read inside a batch: encoding/json reads 10,000 levels.
func fitsInside(value []byte) bool {
	if bytes.Count(value, []byte("["))+bytes.Count(value, []byte("{")) < 9990 {
		return true
	}
	return json.Valid(slices.Concat([]byte("[[[[[["), value, []byte("]]]]]]")))
}

// Answer is engine.Answer. Changed says whether the call has had an effect.
type Answer struct {
	Was     engine.State `json:"was"`
	Changed bool         `json:"changed"`
	Version int64        `json:"version,omitempty"`
	Due     Instant      `json:"due,omitzero"`
	Error   *Problem     `json:"error,omitempty"`
}

// Execution is engine.Execution.
type Execution struct {
	Version int64        `json:"version"`
	Attempt int          `json:"attempt"`
	Node    string       `json:"node"`
	Started Instant      `json:"started,omitzero"`
	Took    Duration     `json:"took"`
	As      engine.State `json:"as"`
	Error   string       `json:"error,omitempty"`
}

// WhenOf returns an action time, rounded up to milliseconds: nothing is due early. A center has
// refused both a due and an after.
func WhenOf(due time.Time, after time.Duration) When {
	var when When
	if !due.IsZero() {
		when.Due = Instant{due.Add(time.Millisecond - 1)} // an Instant is written without what is below a millisecond
	}
	if after != 0 {
		when.After = (*Duration)(&after)
	}
	return when
}

// SettingOf returns a task to be set. The payload arrives byte for byte: it is JSON in JSON only if
// that changes nothing.
func SettingOf(t engine.Task) Setting {
	setting := Setting{When: WhenOf(t.Due, t.After), OnSchedule: t.OnSchedule, KeepDue: t.KeepDue, Options: OptionsOf(t.Options), Callback: CallbackOf(t.Callback), Trace: t.Trace}
	var compact bytes.Buffer
	switch {
	case len(t.Payload) == 0:
	case isJSON(t.Payload) && json.Compact(&compact, t.Payload) == nil && bytes.Equal(compact.Bytes(), t.Payload):
		setting.Payload = t.Payload
	default:
		setting.PayloadBase64 = &t.Payload
	}
	return setting
}

// Read returns the task. Its payload is as the server shows it: JSON may have other white space.
func (t Task) Read() engine.Task {
	task := engine.Task{
		Topic: t.Topic, ID: t.ID, State: t.State, Due: t.Due.Time, Until: t.Until.Time, Version: t.Version,
		Created: t.Created.Time, Attempts: t.Attempts, Calls: t.Calls, Failures: t.Failures, Error: t.Error, Node: t.Node,
		Callback: t.Callback.Read(), Trace: t.Trace, Options: t.Options.Read(), Payload: t.PayloadBase64, PayloadBytes: t.PayloadBytes,
	}
	if t.Payload != nil {
		task.Payload = t.Payload
	}
	return task
}

// ExecutionOf returns an attempt as JSON.
func ExecutionOf(e engine.Execution) Execution {
	return Execution{
		Version: e.Version, Attempt: e.Attempt, Node: e.Node, Started: Instant{e.Started}, Took: Duration(e.Took), As: e.As, Error: e.Error,
	}
}

// Read returns the attempt.
func (e Execution) Read() engine.Execution {
	return engine.Execution{
		Version: e.Version, Attempt: e.Attempt, Node: e.Node, Started: e.Started.Time, Took: time.Duration(e.Took), As: e.As, Error: e.Error,
	}
}

// Tasks is a page of a list, or the tasks of a batch.
type Tasks struct {
	Tasks []Task `json:"tasks"`
	Next  string `json:"next,omitempty"`
}

// Answers are the answers to a batch, in its order.
type Answers struct {
	Answers []Answer `json:"answers"`
}

// Executions are the finished attempts of a task, the latest first.
type Executions struct {
	Executions []Execution `json:"executions"`
}
