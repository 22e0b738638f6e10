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

// maxSubject is how many bytes a subject can have. All calls share a connection, and a server
// closes it after a line of more than max_control_line, 4 KiB by default.
const maxSubject = 1000

// reserved are the prefixes of headers that only this package or the server gives a meaning.
// With Nats-Rollup, for example, the server would delete older messages.
var reserved = []string{callback.Prefix, callback.HeaderKey, "Nats-"}

// Check returns an error wrapping timeout.ErrArgument if the callback can never be made. It
// refuses another kind, a method, final statuses, reserved headers and invalid subjects. A
// subject is invalid if it has wildcards, empty parts, spaces or control characters. It is
// invalid also if it begins with $ or _INBOX: messages there are commands to the server or
// answers to other clients. The error names the value.
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

// Circuit returns the first part of the subject. Most often one stream takes all subjects with
// that first part, and a full or missing stream says nothing about others.
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
			return fmt.Errorf("%w: header %.100s has a control character in its value, must have none", timeout.ErrArgument, name)
		}
		for _, prefix := range reserved {
			if len(name) >= len(prefix) && strings.EqualFold(name[:len(prefix)], prefix) {
				return fmt.Errorf("%w: header %.100s, must not begin with one of %q", timeout.ErrArgument, name, reserved)
			}
		}
	}
	return nil
}
