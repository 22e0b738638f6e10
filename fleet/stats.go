package fleet

import "sync/atomic"

// Stats counts what a node has done since New.
type Stats struct {
	Sessions int // present sessions of the node

	Renewals uint64 // session leases extended
	Beats    uint64 // requests for the node's own lease, see Config.NodeLease
	Refused  uint64 // sessions found to be the node's no more
	Moved    uint64 // sessions of the node registered anew, here or elsewhere
	Lost     uint64 // sessions not extended in time
	Told     uint64 // ends told to OnOffline
	Untold   uint64 // failures of OnOffline
	Held     uint64 // pauses of a slot's expiries for a lease: after a gap, or see Config.MaxExpire
	Failures uint64 // failed calls to Redis, apart from those of Lookup, LookupAll, Count and Kick
	Panics   uint64 // panics in functions of the user, and calls of runtime.Goexit
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
