// Package origin keeps the callback, the trace and the options of a task as JSON.
package origin

import (
	"encoding/json"
	"fmt"

	"github.com/heartwheel-go/heartwheel/timeout/engine"
)

// origin is a callback with a trace and options. Without these the JSON is as in earlier versions. With one of them and
// no callback it is a callback without a kind to them: they put the task off, for another node.
type origin struct {
	engine.Callback
	Trace   map[string]string `json:"trace,omitempty"`
	Options engine.Options    `json:"options,omitzero"`
}

// Of returns the JSON for a task. It is empty without a callback, a trace and options.
func Of(task *engine.Task) string {
	if task.Callback == nil && len(task.Trace) == 0 && task.Options.IsZero() {
		return ""
	}
	from := origin{Trace: task.Trace, Options: task.Options}
	if task.Callback != nil {
		from.Callback = *task.Callback
	}
	text, _ := json.Marshal(from) // strings, numbers and a duration can always be written
	return string(text)
}

// Read sets Callback, Trace and Options of a task. Empty JSON is none of them.
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
	task.Trace, task.Options = from.Trace, from.Options
	return nil
}
