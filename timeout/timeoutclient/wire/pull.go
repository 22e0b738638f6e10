package wire

import (
	"time"

	"github.com/heartwheel-go/heartwheel/timeout/engine"
)

// Pull asks for due tasks. Its fields are those of timeout.Pull.
type Pull struct {
	Max   int      `json:"max,omitempty"`
	Lease Duration `json:"lease,omitzero"`
	Wait  Duration `json:"wait,omitzero"`
}

// Pulled are leased tasks.
type Pulled struct {
	Tasks []Leased `json:"tasks"`
}

// Leased is a task with the token of its lease.
type Leased struct {
	Task
	Token string   `json:"token"`
	Lease Duration `json:"lease"` // what is left of it

	// Again means an earlier lease without an outcome.
	Again bool `json:"again,omitempty"`
}

// LeasedOf returns a task from timeout.Center.Pull.
func LeasedOf(l engine.Leased) Leased {
	// Begun is not before the begin of the lease, so this is no longer than the lease is. If the clocks of
	// shards differ, it is shorter by that.
	lease := l.Until.Sub(time.UnixMilli(l.Token.Begun))
	return Leased{TaskOf(l.Task), l.Token.String(), Duration(lease), l.Again}
}

// Extend asks for another end of a lease. A Lease of zero is the topic's.
type Extend struct {
	Token string   `json:"token"`
	Lease Duration `json:"lease,omitzero"`
}

// Extended says whether a lease goes on, and for how long from now.
type Extended struct {
	Held  bool     `json:"held"`
	Lease Duration `json:"lease,omitzero"`
}

// Feedback is the outcome of a pulled or an accepted task.
type Feedback struct {
	Token string `json:"token"`

	// Error says how the attempt failed. Empty means success. Permanent excludes another
	// attempt, and RetryAfter is the time until the next one.
	Error      string    `json:"error,omitempty"`
	Permanent  bool      `json:"permanent,omitempty"`
	RetryAfter *Duration `json:"retry_after,omitempty"`

	// Again means success, and another run after that time.
	Again *Duration `json:"again,omitempty"`

	// Returned is for a task not begun by anybody: the attempt does not count.
	Returned bool `json:"returned,omitempty"`
}

// Settled says whether an outcome came in time.
type Settled struct {
	Settled bool `json:"settled"`
}
