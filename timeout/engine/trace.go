package engine

import (
	"fmt"
	"maps"
	"slices"
	"strings"
)

// MaxTrace is how many bytes the names and values of a Task.Trace may have together.
const MaxTrace = 2 << 10

// The names in a Task.Trace: the headers of W3C Trace Context and of W3C Baggage.
const (
	Traceparent = "traceparent"
	Tracestate  = "tracestate"
	Baggage     = "baggage"
)

// CheckTrace returns an error wrapping ErrArgument if trace is no Task.Trace. Nil and empty ones are
// valid.
func CheckTrace(trace map[string]string) error {
	if len(trace) == 0 { // as with most tasks
		return nil
	}
	size := 0
	for _, name := range slices.Sorted(maps.Keys(trace)) {
		value := trace[name]
		size += len(name) + len(value)
		switch {
		case name != Traceparent && name != Tracestate && name != Baggage:
			return fmt.Errorf("%w: trace with the name %.50q, must be %s, %s or %s", ErrArgument, name, Traceparent, Tracestate, Baggage)
		case name == Traceparent && !isTraceparent(value):
			return fmt.Errorf("%w: traceparent %.80q, must be as in W3C Trace Context: 00-, 32 and 16 hexadecimal digits in lower case, and 2 for flags", ErrArgument, value)
		case strings.ContainsFunc(value, func(r rune) bool { return r < ' ' || r > '~' }):
			return fmt.Errorf("%w: %s %.80q, must be printable ASCII", ErrArgument, name, value)
		}
	}
	if size > MaxTrace {
		return fmt.Errorf("%w: trace has %d bytes, must have at most %d", ErrArgument, size, MaxTrace)
	}
	return nil
}

// isTraceparent reports whether the text is a traceparent. One of a later version than 00 may be longer.
func isTraceparent(text string) bool {
	const length = len("00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01")
	if len(text) < length || len(text) > length && (text[:2] == "00" || text[length] != '-') {
		return false
	}
	version, trace, parent, flags := text[:2], text[3:35], text[36:52], text[53:length]
	if text[2] != '-' || text[35] != '-' || text[52] != '-' || version == "ff" {
		return false
	}
	for _, part := range []string{version, trace, parent, flags} {
		if strings.Trim(part, "0123456789abcdef") != "" {
			return false
		}
	}
	return strings.Trim(trace, "0") != "" && strings.Trim(parent, "0") != ""
}
