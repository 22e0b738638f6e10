package engine

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"
)

// MaxCallback is how many bytes the texts of a callback may have together.
const MaxCallback = 8 << 10

// MaxFinal is the greatest number of final statuses of a callback.
const MaxFinal = 16

// Callback describes the call to make when a task is due, for tasks without a Go handler.
type Callback struct {
	// Kind names the timeout.Caller that makes the call: "http", "nats", "redis".
	Kind string `json:"kind"`

	// Target is the address of the call: a URL, a subject, a stream.
	Target string `json:"target"`

	// Method is that of an HTTP call. Empty means POST.
	Method string `json:"method,omitempty"`

	// Header are headers, or the equivalent of the kind.
	Header map[string]string `json:"header,omitempty"`

	// Timeout is how long the call may take, at most MaxDuration. Zero means the caller's
	// default.
	Timeout time.Duration `json:"timeout,omitempty"`

	// Final lists HTTP statuses, 400 to 599, that make a task dead at once, like 410. It has at
	// most MaxFinal of them. All other statuses but 2xx and redirects lead to a retry.
	Final []int `json:"final,omitempty"`
}

// Clone returns a copy that shares nothing with c, or nil. It is for engines in memory.
func (c *Callback) Clone() *Callback {
	if c == nil {
		return nil
	}
	clone := *c
	clone.Header, clone.Final = maps.Clone(c.Header), slices.Clone(c.Final)
	return &clone
}

// Hidden is in a callback from Masked in place of what may be a secret.
const Hidden = "***"

// Masked returns the callback for readers who may not make its call, as in a log: with Hidden in place of the value
// of each header, of a user and a password in the target, and of the target's query and fragment.
func (c Callback) Masked() Callback {
	c.Header = maps.Clone(c.Header)
	for name := range c.Header {
		c.Header[name] = Hidden
	}
	if at := strings.IndexAny(c.Target, "?#"); at >= 0 {
		c.Target = c.Target[:at+1] + Hidden
	}
	if scheme, rest, isURL := strings.Cut(c.Target, "://"); isURL {
		host, _, _ := strings.Cut(rest, "/")
		if at := strings.LastIndexByte(host, '@'); at >= 0 {
			c.Target = scheme + "://" + Hidden + rest[at:]
		}
	}
	return c
}

// isMasked reports whether a part of the callback is Hidden.
func (c Callback) isMasked() bool {
	for _, value := range c.Header {
		if value == Hidden {
			return true
		}
	}
	return strings.Contains(c.Target, "//"+Hidden+"@") || strings.HasSuffix(c.Target, "?"+Hidden) || strings.HasSuffix(c.Target, "#"+Hidden)
}

// Check returns an error wrapping ErrArgument if the callback is invalid. The timeout.Caller
// checks the target.
func (c Callback) Check() error {
	size := len(c.Kind) + len(c.Target) + len(c.Method)
	for name, value := range c.Header {
		size += len(name) + len(value)
	}
	switch {
	case c.Kind == "" || c.Target == "":
		return fmt.Errorf("%w: callback with kind %q and target %q, must have both", ErrArgument, c.Kind, c.Target)
	case size > MaxCallback:
		return fmt.Errorf("%w: callback has %d bytes, must have at most %d", ErrArgument, size, MaxCallback)
	case c.isMasked():
		return fmt.Errorf("%w: callback with %s in place of a secret, must have the secret", ErrArgument, Hidden)
	case c.Timeout < 0:
		return fmt.Errorf("%w: Timeout %v of a callback, must not be negative", ErrArgument, c.Timeout)
	case c.Timeout > MaxDuration:
		return fmt.Errorf("%w: Timeout %v of a callback, must be at most %v", ErrArgument, c.Timeout, MaxDuration)
	case len(c.Final) > MaxFinal:
		return fmt.Errorf("%w: Final of a callback has %d statuses, must have at most %d", ErrArgument, len(c.Final), MaxFinal)
	}
	for _, status := range c.Final {
		if status < 400 || status > 599 {
			return fmt.Errorf("%w: Final %d of a callback, must be 400 to 599", ErrArgument, status)
		}
	}
	return nil
}
