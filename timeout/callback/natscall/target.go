package natscall

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"unicode/utf8"

	"golang.org/x/net/http/httpguts"

	"github.com/heartwheel-go/heartwheel/timeout"
	"github.com/heartwheel-go/heartwheel/timeout/callback"
)

// maxSubject is how many bytes a subject can have. A server hangs up on a line of more than
// max_control_line, 4 KiB by default, and all calls share the connection.
const maxSubject = 1000

// reserved is what headers begin with that are ours, or mean something to the server, which
// would delete older messages for Nats-Rollup.
var reserved = []string{callback.Prefix, callback.HeaderKey, "Nats-"}

// Check returns an error, which wraps timeout.ErrArgument and names the value, for a callback
// that can never be made: one with another kind, with a method, with final statuses, with a
// header that is not the callback's to set, or whose subject can't be published to. That is one
// with wildcards, empty parts, spaces or control characters, and one that begins with $ or
// _INBOX, whose messages are commands to the server or answers to others.
func (c *Caller) Check(call timeout.Callback) error {
	if call.Kind != Kind {
		return fmt.Errorf("%w: kind %.50q, must be %q", timeout.ErrArgument, call.Kind, Kind)
	}
	if err := call.Check(); err != nil {
		return err
	}
	if call.Method != "" {
		return fmt.Errorf("%w: method %.50q, must be empty: subjects have none", timeout.ErrArgument, call.Method)
	}
	if len(call.Final) > 0 {
		return fmt.Errorf("%w: final %v, must be empty: subjects have no status", timeout.ErrArgument, call.Final)
	}
	if err := checkHeader(call.Header); err != nil {
		return err
	}
	if err := checkSubject(call.Target); err != nil {
		return err
	}
	if !strings.HasPrefix(call.Target, c.cfg.Prefix) {
		return fmt.Errorf("%w: subject %.100q, must begin with %q", timeout.ErrArgument, call.Target, c.cfg.Prefix)
	}
	return nil
}

// Circuit returns the first part of the subject: most often there is a stream for all that
// begins with it, and a stream that is full or gone says nothing about others.
func (c *Caller) Circuit(call timeout.Callback) string {
	first, _, _ := strings.Cut(call.Target, ".")
	return first
}

func checkSubject(subject string) error {
	if len(subject) > maxSubject {
		return fmt.Errorf("%w: subject has %d bytes, must have at most %d", timeout.ErrArgument, len(subject), maxSubject)
	}
	bad := func(r rune) bool { return r <= ' ' || r == 0x7f || r == '*' || r == '>' || r == utf8.RuneError }
	if strings.ContainsFunc(subject, bad) || slices.Contains(strings.Split(subject, "."), "") {
		return fmt.Errorf("%w: subject %.100q, must be parts with dots between, without wildcards, spaces and control characters",
			timeout.ErrArgument, subject)
	}
	if strings.HasPrefix(subject, "$") || subject == "_INBOX" || strings.HasPrefix(subject, "_INBOX.") {
		return fmt.Errorf("%w: subject %.100q, must not begin with $ or _INBOX, which are the server's", timeout.ErrArgument, subject)
	}
	return nil
}

func checkHeader(header map[string]string) error {
	for _, name := range slices.Sorted(maps.Keys(header)) {
		if !httpguts.ValidHeaderFieldName(name) {
			return fmt.Errorf("%w: header %.100q, must be a name of letters, digits and -", timeout.ErrArgument, name)
		}
		if !httpguts.ValidHeaderFieldValue(header[name]) {
			return fmt.Errorf("%w: header %.100s has the value %.100q, must have no control characters", timeout.ErrArgument, name, header[name])
		}
		for _, prefix := range reserved {
			if len(name) >= len(prefix) && strings.EqualFold(name[:len(prefix)], prefix) {
				return fmt.Errorf("%w: header %.100s, must not begin with one of %q", timeout.ErrArgument, name, reserved)
			}
		}
	}
	return nil
}
