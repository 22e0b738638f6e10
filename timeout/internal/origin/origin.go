// Package origin keeps the callback and the trace of a task as JSON.
package origin

import (
	"encoding/json"
	"fmt"

	"github.com/heartwheel-go/heartwheel/timeout/engine"
)

// origin is a callback with a trace. Without a trace the JSON is as in earlier versions. With a trace and
// no callback it is a callback without a kind to them: they put the task off, for another node.
type origin struct {
	engine.Callback
	Trace map[string]string `json:"trace,omitempty"`
}

// Of returns the JSON for a task. It is empty without a callback and a trace.
func Of(task *engine.Task) string {
	if task.Callback == nil && len(task.Trace) == 0 {
		return ""
	}
	from := origin{Trace: task.Trace}
	if task.Callback != nil {
		from.Callback = *task.Callback
	}
	text, _ := json.Marshal(from) // strings, numbers and a duration can always be written
	return string(text)
}

// Read sets Callback and Trace of a task. Empty JSON is neither.
func Read(text []byte, task *engine.Task) error {
	if len(text) == 0 {
		return nil
	}
	var from origin
	if err := json.Unmarshal(text, &from); err != nil {
		return fmt.Errorf("callback of %v: %w", task.Key(), err)
	}
	if from.Kind != "" {
		task.Callback = &from.Callback
	}
	task.Trace = from.Trace
	return nil
}
