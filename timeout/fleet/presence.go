package fleet

import "time"

// Online is a registration. Who has seen an Offline of the same session with this epoch or a higher one
// drops it: another node may have told of the end first.
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

	// Attempt is 1, or more where it is told again, or where a node had taken it and did not come to
	// tell it: such as one that had died, or that was busy for half a minute with others.
	Attempt int

	// LastSeen is when it was closed or detached; or when its lease was extended for the last time,
	// up to Renew before its node was last there. Where nodes have leases it is as a rule when that of
	// the node was, up to a third of NodeLease before.
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
	Until    time.Time // end of its lease; with NodeLease it ends before that where its node dies
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
