package connpool

import (
	"math"
	"time"
)

// Stats is what a pool holds and what it has done, at one moment.
type Stats struct {
	MaxOpen int // see Config.MaxOpen; 0 is any number

	Open    int // connections, also during a check or a close
	Idle    int // open connections waiting for a Get
	InUse   int // the other open connections, also during a check
	Closing int // open connections being closed, or about to be: many mean that Close hangs
	Dialing int // running dials
	Waiting int // waiting calls of Get
	Leaking int // leases reported by Config.LeakAfter that are still out
	Hanging int // checks that have not returned long after the end of their context, see Config.CheckTimeout

	Gets     uint64        // calls of Get with a connection as the result
	Waits    uint64        // calls of Get without an idle connection: they waited for one or for a dial
	WaitTime time.Duration // sum of the ended waits

	Dials      uint64 // begun
	DialErrors uint64 // failed
	Leaks      uint64 // leases reported by Config.LeakAfter
	Taken      uint64 // connections taken out with Lease.Take
	Closed     Counts // connections closed by the pool, by reason
	Panics     uint64 // panics in functions of the user, less panics passed on by Get and Put
}

// Stats returns the pool's figures.
func (p *Pool[T]) Stats() Stats {
	maxOpen := p.cfg.MaxOpen
	if maxOpen == math.MaxInt {
		maxOpen = 0
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	return Stats{
		MaxOpen:    maxOpen,
		Open:       p.open,
		Idle:       p.idle.n,
		InUse:      p.inUse(),
		Closing:    p.closing,
		Dialing:    p.dialing,
		Waiting:    p.waiters.Len(),
		Leaking:    p.leaking,
		Hanging:    int(p.hanging.Load()),
		Gets:       p.gets,
		Waits:      p.waits,
		WaitTime:   p.waitTime,
		Dials:      p.dials,
		DialErrors: p.dialErrors,
		Leaks:      p.leaks,
		Taken:      p.taken,
		Closed:     p.ended,
		Panics:     p.panics.Load(),
	}
}

// inUse returns how many connections are in use, or in a check. p.mu must be held.
func (p *Pool[T]) inUse() int { return p.open - p.idle.n - p.closing }
