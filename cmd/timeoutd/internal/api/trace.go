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
	parent := r.Header.Values("Traceparent")
	if len(task.Trace) > 0 || len(parent) != 1 {
		return
	}
	alone := map[string]string{engine.Traceparent: parent[0]}
	if engine.CheckTrace(alone) != nil {
		return
	}
	task.Trace = alone
	if state := strings.Join(r.Header.Values("Tracestate"), ","); state != "" {
		both := map[string]string{engine.Traceparent: parent[0], engine.Tracestate: state}
		if engine.CheckTrace(both) == nil {
			task.Trace = both
		}
	}
}
