package api

import (
	"net/http"
	"strings"

	"github.com/heartwheel-go/heartwheel/timeout"
	"github.com/heartwheel-go/heartwheel/timeout/engine"
)

// traced gives a task the trace of the request that sets it, if it has none of its own. As W3C Trace
// Context says, headers with an error don't count. Baggage stays here: it is not meant for every target.
func traced(task *timeout.Task, r *http.Request) {
	if len(task.Trace) > 0 {
		return
	}
	parent := r.Header.Values("Traceparent")
	if len(parent) != 1 || engine.CheckTrace(map[string]string{engine.Traceparent: parent[0]}) != nil {
		return
	}
	task.Trace = map[string]string{engine.Traceparent: parent[0]}
	if state := strings.Join(r.Header.Values("Tracestate"), ","); state != "" {
		both := map[string]string{engine.Traceparent: parent[0], engine.Tracestate: state}
		if engine.CheckTrace(both) == nil {
			task.Trace = both
		}
	}
}
