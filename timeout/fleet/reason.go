package fleet

import "strconv"

// Reason is why a session ended, or was taken from a node; 0 is none. It is an error, too, so %v
// prints "fleet: session kicked", and String returns "kicked".
type Reason byte

const (
	// ReasonClosed says that it was closed: by Session.Close, or with its connection, whoever has
	// closed that. Why, the Keeper's OnClose is told.
	ReasonClosed Reason = iota + 1

	// ReasonExpired says that its lease had ended: its node has died, or was cut off.
	ReasonExpired

	// ReasonDetached says that it was detached, and nobody has resumed it in time.
	ReasonDetached

	// ReasonKicked says that somebody has called Node.Kick.
	ReasonKicked

	// ReasonMoved says that the same session was registered anew, here or on another node.
	// It goes on there: OnOffline is not told.
	ReasonMoved

	// ReasonLost says that the node could not extend the lease for as long as it is: somebody
	// else may have the session.
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

// reasonOf reads what a slot keeps.
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
