package fleet

import "sync/atomic"

// Stats is what a node has done since it was made.
type Stats struct {
	Sessions int // that it has

	Renewals uint64 // leases of sessions that it has extended
	Beats    uint64 // times that it has asked for its own lease, see Config.NodeLease
	Refused  uint64 // sessions that turned out not to be its own any more
	Moved    uint64 // of its sessions, those that were registered anew
	Lost     uint64 // those that it could not extend in time
	Told     uint64 // ends that OnOffline was told of
	Untold   uint64 // times that OnOffline has failed
	Held     uint64 // times that nothing expires in a slot for a lease: after a gap, or see Config.MaxExpire
	Failures uint64 // calls to Redis that have failed, and whose error nobody was given
	Panics   uint64 // functions of the user that have panicked
}

type counters struct {
	renewals, beats, refused, moved, lost, told, untold, held, failures, panics atomic.Uint64
}

func (c *counters) failed(err error) {
	if err != nil {
		c.failures.Add(1)
	}
}

func (c *counters) ended(reason Reason) {
	switch reason {
	case ReasonMoved:
		c.moved.Add(1)
	case ReasonLost:
		c.lost.Add(1)
	}
}

// Stats returns the node's figures.
func (n *Node) Stats() Stats {
	c := &n.stats
	return Stats{
		Sessions: n.Len(), Renewals: c.renewals.Load(), Beats: c.beats.Load(), Refused: c.refused.Load(), Moved: c.moved.Load(),
		Lost: c.lost.Load(), Told: c.told.Load(), Untold: c.untold.Load(), Held: c.held.Load(),
		Failures: c.failures.Load(), Panics: c.panics.Load(),
	}
}
