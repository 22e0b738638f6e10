package fleet

import "strconv"

// Reason is why a session ended, or was taken from a node; 0 is none. It is also an error: %v
// prints "fleet: session kicked", and String returns "kicked".
type Reason byte

const (
	// ReasonClosed means a closed session, by Session.Close or with its connection. The
	// Keeper's OnClose is told why the connection was closed.
	ReasonClosed Reason = iota + 1

	// ReasonExpired means an ended lease: the node has died, or was cut off.
	ReasonExpired

	// ReasonDetached means a session detached, and not resumed in time.
	ReasonDetached

	// ReasonKicked means a session kicked by Node.Kick.
	ReasonKicked

	// ReasonMoved means a new registration of the same session, here or on another node. It goes
	// on there, and OnOffline is not told.
	ReasonMoved

	// ReasonLost means a lease not extended in time by the node: another node may have the
	// session.
	ReasonLost

	// ReasonDraining means a node being drained.
	ReasonDraining
)

var reasons = [...]string{"", "closed", "expired", "detached", "kicked", "moved", "lost", "draining"}

func (r Reason) String() string {
	if r == 0 || int(r) >= len(reasons) {
		return "reason " + strconv.Itoa(int(r))
	}
	return reasons[r]
}

func (r Reason) Error() string { return "fleet: session " + r.String() }

// reasonOf translates the reason byte of a slot.
func reasonOf(kept byte) Reason {
	switch kept {
	case 'e':
		return ReasonExpired
	case 'd':
		return ReasonDetached
	case 'k':
		return ReasonKicked
	}
	return ReasonClosed
}
