package api

import (
	"bytes"
	"encoding/json"
	"fmt"
	"time"
	"unicode/utf8"

	"github.com/heartwheel-go/heartwheel/timeout"
)

// When is an action time: Due or After, or neither for at once.
type When struct {
	Due   *Instant  `json:"due,omitempty"`
	After *Duration `json:"after,omitempty"`
}

// read returns the time as a centre takes it. The error wraps timeout.ErrArgument.
func (w When) read() (due time.Time, after time.Duration, err error) {
	if w.Due != nil && w.After != nil {
		return due, after, fmt.Errorf("%w: due %v and after %v, must be one of them", timeout.ErrArgument, w.Due.Time, time.Duration(*w.After))
	}
	if w.Due != nil {
		due = w.Due.Time
	}
	if w.After != nil {
		after = time.Duration(*w.After)
	}
	return due, after, nil
}

// Setting is a task to be set, without its key.
type Setting struct {
	When

	// Payload is any JSON value, kept as it was written. PayloadBase64 is for anything else.
	Payload       json.RawMessage `json:"payload,omitempty"`
	PayloadBase64 *[]byte         `json:"payload_base64,omitempty"`

	Callback *Callback `json:"callback,omitempty"`
}

// KeyedSetting is a setting in a batch.
type KeyedSetting struct {
	timeout.Key
	Setting
	IfAbsent bool `json:"if_absent,omitempty"`
}

// task returns the task to be set under a key. The error wraps timeout.ErrArgument.
func (s Setting) task(key timeout.Key, ifAbsent bool) (timeout.Task, error) {
	task := timeout.Task{Topic: key.Topic, ID: key.ID, Payload: s.Payload, IfAbsent: ifAbsent, Callback: s.Callback.read()}
	var err error
	if task.Due, task.After, err = s.read(); err != nil {
		return task, err
	}
	if s.PayloadBase64 != nil {
		if s.Payload != nil {
			return task, fmt.Errorf("%w: payload and payload_base64, must be one of them", timeout.ErrArgument)
		}
		task.Payload = *s.PayloadBase64
	}
	return task, task.Check()
}

// Callback is timeout.Callback.
type Callback struct {
	Kind    string            `json:"kind"`
	Target  string            `json:"target"`
	Method  string            `json:"method,omitempty"`
	Header  map[string]string `json:"header,omitempty"`
	Timeout Duration          `json:"timeout,omitzero"`
	Final   []int             `json:"final,omitempty"`
}

func (c *Callback) read() *timeout.Callback {
	if c == nil {
		return nil
	}
	return &timeout.Callback{Kind: c.Kind, Target: c.Target, Method: c.Method, Header: c.Header, Timeout: time.Duration(c.Timeout), Final: c.Final}
}

func callbackOf(c *timeout.Callback) *Callback {
	if c == nil {
		return nil
	}
	return &Callback{Kind: c.Kind, Target: c.Target, Method: c.Method, Header: c.Header, Timeout: Duration(c.Timeout), Final: c.Final}
}

// Task is a task in its present state.
type Task struct {
	timeout.Key
	State    timeout.State `json:"state"`
	Due      *Instant      `json:"due,omitempty"`
	Until    *Instant      `json:"until,omitempty"`
	Version  int64         `json:"version,omitempty"`
	Attempts int           `json:"attempts,omitempty"`
	Error    string        `json:"error,omitempty"`
	Node     string        `json:"node,omitempty"`
	Callback *Callback     `json:"callback,omitempty"`

	// PayloadBytes is the size of the payload. Lists have it in place of the payload.
	PayloadBytes  int             `json:"payload_bytes,omitempty"`
	Payload       json.RawMessage `json:"payload,omitempty"`
	PayloadBase64 []byte          `json:"payload_base64,omitempty"`
}

func taskOf(t timeout.Task) Task {
	task := briefOf(t)
	task.PayloadBytes = 0
	if isJSON(t.Payload) {
		task.Payload = t.Payload
	} else {
		task.PayloadBase64 = t.Payload
	}
	return task
}

// briefOf returns a task without its payload.
func briefOf(t timeout.Task) Task {
	return Task{
		Key: t.Key(), State: t.State, Due: instantOf(t.Due), Until: instantOf(t.Until), Version: t.Version,
		Attempts: t.Attempts, Error: t.Error, Node: t.Node, Callback: callbackOf(t.Callback), PayloadBytes: len(t.Payload),
	}
}

// isJSON reports whether a payload can be shown as a JSON value, unchanged but for the space
// around and between its parts.
func isJSON(payload []byte) bool {
	return len(bytes.TrimSpace(payload)) > 0 && utf8.Valid(payload) && json.Valid(payload)
}

func instantOf(t time.Time) *Instant {
	if t.IsZero() {
		return nil
	}
	return &Instant{t}
}

// Answer is timeout.Answer. Changed says whether the call has had an effect.
type Answer struct {
	Was     timeout.State `json:"was"`
	Changed bool          `json:"changed"`
	Version int64         `json:"version,omitempty"`
	Due     *Instant      `json:"due,omitempty"`
	Error   *Problem      `json:"error,omitempty"`
}

// Answers are the answers to a batch, in its order.
type Answers struct {
	Answers []Answer `json:"answers"`
}

// effect reports whether a call without an error has changed something.
type effect func(timeout.Answer) bool

func movable(a timeout.Answer) bool    { return a.Was == timeout.Pending }
func replayable(a timeout.Answer) bool { return a.Was == timeout.Dead }
func removable(a timeout.Answer) bool  { return live(a) && a.Version == 0 }
func always(timeout.Answer) bool       { return true }
func vacant(a timeout.Answer) bool     { return !live(a) }

func live(a timeout.Answer) bool {
	return a.Was == timeout.Pending || a.Was == timeout.Running || a.Was == timeout.Dead
}

func setEffect(ifAbsent bool) effect {
	if ifAbsent {
		return vacant
	}
	return always
}

func answerOf(a timeout.Answer, has effect) Answer {
	answer := Answer{Was: a.Was, Version: a.Version, Due: instantOf(a.Due)}
	if a.Err != nil {
		problem := problemOf(a.Err)
		answer.Error = &problem
		return answer
	}
	answer.Changed = has(a)
	return answer
}
