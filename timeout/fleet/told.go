package fleet

import "time"

// Online is a registration.
type Online struct {
	Session string
	Epoch   int64 // higher than that of any registration of this session before
	Node    string
	Meta    []byte

	// Resumed says that it had been detached, and Again that Redis had lost it and its node has
	// registered it once more: it was online all the time.
	Resumed, Again bool

	// Before is the node that had it until now, where one had.
	Before string
}

// Offline is the end of a session. Who has seen an Online of the same session with a higher epoch
// drops it: that can't be kept from crossing on the way.
type Offline struct {
	Session string
	Epoch   int64
	Reason  Reason // ReasonClosed, ReasonExpired, ReasonDetached or ReasonKicked
	Attempt int    // 1, or more where it is told again

	// LastSeen is when it was closed or detached, or its lease was extended for the last time:
	// that is up to Renew before its node was last there.
	LastSeen time.Time

	Node string // that had it last
	Meta []byte
}

// Presence is what is known of a session.
type Presence struct {
	Session  string
	Node     string // that has it, or had it last where it is detached
	Epoch    int64
	Since    time.Time // of its registration, or the one before that where it was resumed
	Until    time.Time // end of its lease
	Detached bool
	Meta     []byte
}
