package engine

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"time"
)

// Options are the settings of a single task. A zero field means what the topic says.
type Options struct {
	// Retries, Backoff and BackoffMax are as in Topic. A Backoff without a BackoffMax raises the topic's BackoffMax if that is
	// shorter.
	Retries    int           `json:"retries,omitempty"`
	Backoff    time.Duration `json:"backoff,omitempty"`
	BackoffMax time.Duration `json:"backoff_max,omitempty"`

	// Timeout is as in Topic, for handlers and callbacks. Programs that pull the task have the topic's.
	Timeout time.Duration `json:"timeout,omitempty"`

	// NotAfter is the last moment at which an attempt may begin, by the engine's clock. A task that would run
	// later is Dead: its topic was paused, say, or its target was down. A pulled task that is due later is Dead when
	// somebody asks for it. The zero time means no limit.
	NotAfter time.Time `json:"not_after,omitzero"`

	// Metadata names the customer, the release, or whatever else programs and people need. Query.Metadata lists the tasks
	// with some of it. An empty one is kept as nil. See CheckMetadata for its limits.
	Metadata map[string]string `json:"metadata,omitempty"`
}

// The limits of Options.Metadata.
const (
	MaxMetadata      = 16      // entries
	MaxMetadataName  = 64      // bytes of a name
	MaxMetadataBytes = 2 << 10 // bytes of all names and values
)

// IsZero reports whether all is as the topic says.
func (o Options) IsZero() bool {
	return o.Retries == 0 && o.Backoff == 0 && o.BackoffMax == 0 && o.Timeout == 0 && o.NotAfter.IsZero() && len(o.Metadata) == 0
}

// Clone returns a deep copy. It is for engines in memory.
func (o Options) Clone() Options {
	if o.Metadata = maps.Clone(o.Metadata); len(o.Metadata) == 0 {
		o.Metadata = nil
	}
	return o
}

// Check returns an error wrapping ErrArgument if no task can have the options.
func (o Options) Check() error {
	if o.Retries > MaxRetries {
		return fmt.Errorf("%w: Retries %d of a task, must be at most %d", ErrArgument, o.Retries, MaxRetries)
	}
	if err := checkDurations("a task", duration{"Backoff", o.Backoff}, duration{"BackoffMax", o.BackoffMax}, duration{"Timeout", o.Timeout}); err != nil {
		return err
	}
	if o.BackoffMax > 0 && o.Backoff > o.BackoffMax {
		return fmt.Errorf("%w: Backoff %v of a task, must be at most its BackoffMax %v", ErrArgument, o.Backoff, o.BackoffMax)
	}
	if err := CheckDue(o.NotAfter); err != nil {
		return fmt.Errorf("NotAfter: %w", err)
	}
	return CheckMetadata(o.Metadata)
}

// CheckMetadata returns an error wrapping ErrArgument if metadata is too large, or has an empty name, or anything other
// than UTF-8 without control characters.
func CheckMetadata(metadata map[string]string) error {
	if len(metadata) > MaxMetadata {
		return fmt.Errorf("%w: Metadata has %d entries, must have at most %d", ErrArgument, len(metadata), MaxMetadata)
	}
	size := 0
	for _, name := range slices.Sorted(maps.Keys(metadata)) {
		value := metadata[name]
		size += len(name) + len(value)
		if name == "" || len(name) > MaxMetadataName {
			return fmt.Errorf("%w: Metadata with a name of %d bytes, must have 1 to %d", ErrArgument, len(name), MaxMetadataName)
		}
		if !isText(name + value) {
			return fmt.Errorf("%w: Metadata %.80q: %.80q, must be UTF-8 without control characters", ErrArgument, name, value)
		}
	}
	if size > MaxMetadataBytes {
		return fmt.Errorf("%w: Metadata has %d bytes, must have at most %d", ErrArgument, size, MaxMetadataBytes)
	}
	return nil
}

// Has reports whether the task has all of some metadata.
func (o Options) Has(metadata map[string]string) bool {
	for name, value := range metadata {
		if has, ok := o.Metadata[name]; !ok || has != value {
			return false
		}
	}
	return true
}

// With returns the topic with a task's options in place of its own settings.
func (t Topic) With(o Options) Topic {
	if o.Backoff > 0 && o.BackoffMax == 0 {
		o.BackoffMax = max(o.Backoff, t.WithDefaults().BackoffMax)
	}
	t.Retries, t.Timeout = cmp.Or(o.Retries, t.Retries), cmp.Or(o.Timeout, t.Timeout)
	t.Backoff, t.BackoffMax = cmp.Or(o.Backoff, t.Backoff), cmp.Or(o.BackoffMax, t.BackoffMax)
	return t
}
