package fleet

import "time"

// Online is a registration. Drop an Online if you have seen an Offline of the same session with
// this epoch or a higher one: another node may have told of the end first.
type Online struct {
	Session string
	Epoch   int64 // higher than at any earlier registration of this session
	Node    string
	Meta    []byte

	// Resumed means a session detached before. Again means a session lost by Redis and registered
	// once more by its node: it was online all the time.
	Resumed, Again bool

	// Before is the session's node until now, if any.
	Before string
}

// Offline is the end of a session. Drop an Offline if you have seen an Online of the same
// session with a higher epoch: the two can cross on the way.
type Offline struct {
	Session string
	Epoch   int64
	Reason  Reason // ReasonClosed, ReasonExpired, ReasonDetached or ReasonKicked

	// Attempt is 1 at first. It is higher if the end is told again, or if a node had taken the
	// end and did not tell it: because it died, say, or was busy with others for half a minute.
	Attempt int

	// LastSeen is when the session was closed or detached. For an expired session it is the
	// last extension of its lease, up to Renew before its node was last there. With NodeLease
	// it is as a rule the last extension of the node's lease, up to a third of NodeLease
	// before.
	LastSeen time.Time

	Node string // the session's last node
	Meta []byte
}

// Presence describes a session.
type Presence struct {
	Session  string
	Node     string // the session's node, or its last one if it is detached
	Epoch    int64
	Since    time.Time // of the registration; of an earlier one if it was resumed
	Until    time.Time // end of the lease; with NodeLease the session ends sooner if its node dies
	Detached bool
	Meta     []byte
}

func (f found) presence(id string) Presence {
	if !f.there || f.value.state == stateEnded {
		return Presence{Session: id}
	}
	return Presence{
		Session: id, Node: f.record.node, Epoch: f.value.token.epoch(), Since: time.UnixMilli(f.record.since),
		Until: time.UnixMilli(f.until), Detached: f.value.state == stateDetached, Meta: []byte(f.record.meta),
	}
}
