package rules

// Reason is why a connection is closed. The numbers are those of keepalive.Reason.
type Reason uint8

// Reasons to close a connection.
const (
	Peer Reason = iota + 1
	Local
	Idle
	Full
	FirstMessage
	ReadIdle
	WriteIdle
	NoAnswer
	MaxAge
	TooMany
	TooSlow
	Evicted
	Drain
	Shed
	WriteStall
	MaxUnsent

	// Check is the first of the checks of the user's: those of higher numbers are others.
	Check

	// Reasons is one more than the last of them.
	Reasons
)
