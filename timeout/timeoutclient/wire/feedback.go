package wire

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
