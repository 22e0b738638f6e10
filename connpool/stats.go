package connpool

import "time"

// Stats is what a pool holds and what it has done, at one moment.
type Stats struct {
	Open    int // connections, those included that are being checked or closed
	Idle    int // of those, how many wait for a Get
	InUse   int // of those, the others
	Dialing int // dials that go on
	Waiting int // calls of Get that wait

	Gets     uint64        // calls of Get that have returned a connection
	Waits    uint64        // calls of Get that found none idle, and waited for one or for a dial
	WaitTime time.Duration // how long those have waited, together, that no longer do

	Dials      uint64 // begun
	DialErrors uint64 // that have failed
	Taken      uint64 // connections that left the pool with Lease.Take
	Closed     Counts // connections that the pool has closed, by reason
	Panics     uint64 // functions of the user that panicked, but for those that Get and Put called
}

// Stats returns the pool's figures.
func (p *Pool[T]) Stats() Stats {
	p.mu.Lock()
	defer p.mu.Unlock()
	return Stats{
		Open:       p.open,
		Idle:       p.idle.n,
		InUse:      p.open - p.idle.n,
		Dialing:    p.dialing,
		Waiting:    p.waiters.Len(),
		Gets:       p.gets,
		Waits:      p.waits,
		WaitTime:   p.waitTime,
		Dials:      p.dials,
		DialErrors: p.dialErrors,
		Taken:      p.taken,
		Closed:     p.ended,
		Panics:     p.panics.Load(),
	}
}
