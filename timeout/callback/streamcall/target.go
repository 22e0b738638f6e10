package streamcall

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/heartwheel-go/heartwheel/timeout"
)

// maxKey is how many bytes a stream's key can have. Redis itself allows far more.
const maxKey = 1000

// maxLenHeader is a header, but never a field.
const maxLenHeader = "MAXLEN"

// ours are the fields of every entry.
var ours = []string{"key", "topic", "id", "version", "attempt", "due", "token", "payload"}

// Check returns an error wrapping timeout.ErrArgument if the callback can never be made. It
// refuses another kind, a method and final statuses. It refuses an empty key, a too long one, one
// without the prefix, and one with control characters. It refuses a MAXLEN below 1, and a header
// with the name of a field of every entry. The error names the value.
func (c *Caller) Check(call timeout.Callback) error {
	if call.Kind != Kind {
		return fmt.Errorf("%w: kind %.50q, must be %q", timeout.ErrArgument, call.Kind, Kind)
	}
	if err := call.Check(); err != nil {
		return err
	}
	switch {
	case call.Method != "":
		return fmt.Errorf("%w: method %.50q, must be empty: streams have none", timeout.ErrArgument, call.Method)
	case len(call.Final) > 0:
		return fmt.Errorf("%w: final %v, must be empty: streams have no status", timeout.ErrArgument, call.Final)
	case len(call.Target) > maxKey:
		return fmt.Errorf("%w: stream has %d bytes, must have at most %d", timeout.ErrArgument, len(call.Target), maxKey)
	case !isText(call.Target):
		return fmt.Errorf("%w: stream %.100q, must be UTF-8 without control characters", timeout.ErrArgument, call.Target)
	case !strings.HasPrefix(call.Target, c.cfg.Prefix) || call.Target == c.cfg.Prefix:
		return fmt.Errorf("%w: stream %.100q, must be %q and a name", timeout.ErrArgument, call.Target, c.cfg.Prefix)
	}
	return checkHeader(call.Header)
}

// Circuit returns the key of the stream. A failure of one stream, such as of its node of a
// Cluster or of a permission, says nothing about others.
func (c *Caller) Circuit(call timeout.Callback) string { return call.Target }

func checkHeader(header map[string]string) error {
	limited := false
	for _, name := range slices.Sorted(maps.Keys(header)) {
		value := header[name]
		switch {
		case name == "" || !isText(name):
			return fmt.Errorf("%w: header %.100q, must be UTF-8 without control characters", timeout.ErrArgument, name)
		case slices.Contains(ours, name):
			return fmt.Errorf("%w: header %s, must not be one of %q", timeout.ErrArgument, name, ours)
		case !strings.EqualFold(name, maxLenHeader):
			continue
		case limited:
			return fmt.Errorf("%w: header %s, must be there once: case makes no difference", timeout.ErrArgument, maxLenHeader)
		}
		if most, err := strconv.ParseInt(value, 10, 64); err != nil || most < 1 {
			return fmt.Errorf("%w: %s %.50q, must be a number, and at least 1", timeout.ErrArgument, maxLenHeader, value)
		}
		limited = true
	}
	return nil
}

func isText(s string) bool {
	return utf8.ValidString(s) && !strings.ContainsFunc(s, func(r rune) bool { return r < ' ' || r == 0x7f })
}
