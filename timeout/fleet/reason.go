package fleet

import "strconv"

// Reason is why a session ended, or was taken from a node; 0 is none. It is also an error: %v
// prints "fleet: session kicked", and String returns "kicked".
type Reason byte

const (
	// ReasonClosed says that the session was closed, by Session.Close or with its connection.
	// The Keeper's OnClose is told why the connection was closed.
	ReasonClosed Reason = iota + 1

	// ReasonExpired says that the lease had ended: the node has died, or was cut off.
	ReasonExpired

	// ReasonDetached says that the session was detached, and not resumed in time.
	ReasonDetached

	// ReasonKicked says that the session was kicked, see Node.Kick.
	ReasonKicked

	// ReasonMoved says that the same session was registered anew, here or on another node. It
	// goes on there: OnOffline is not told.
	ReasonMoved

	// ReasonLost says that the node could not extend the lease in time: another node may have
	// the session.
	ReasonLost

	// ReasonDraining says that the node is being drained.
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
