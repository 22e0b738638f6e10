package rules

import "time"

// Policy is what a Keeper wants of its connections. A zero field turns its policy off,
// unless the field says otherwise.
type Policy struct {
	Tick    time.Duration // precision of the Keeper; required
	Sleep   time.Duration // precision of touches, if it is less
	Timeout time.Duration // how long a peer may be silent; required

	First               time.Duration // time for the first message, in place of Timeout
	ReadIdle, WriteIdle time.Duration // how long nothing may be read, or written

	ProbeAfter   time.Duration // silence before the first probe
	ProbeTimeout time.Duration // time for each answer
	ProbeCount   int           // number of probes; 0 means no probes

	MaxAge   time.Duration
	MaxGrace time.Duration // time after the maximum age was told
	MaxDraw  float64       // share of MaxAge: an age is shorter by that at most

	MinBeat  time.Duration // shortest time between two touches, on average
	MinBytes int           // bytes per second
	Strikes  int           // in a row

	EvictIdle time.Duration // how long an evicted connection must have been silent

	Pressed time.Duration // Timeout under full pressure

	Asks   bool // the user is asked before a connection is closed for a silence
	Tells  bool // the user is told of the maximum age
	Paced  bool // a rate bounds how many connections are closed
	DryRun bool // nobody is closed
}

// maxHop bounds how long after a touch a connection is looked at first: a change of the
// policy reaches each connection by then.
const maxHop = time.Minute

// Hop returns how long after a touch a connection is looked at first: the first instant at
// which something may have to be decided. draw is Evidence.Draw.
func (p *Policy) Hop(s State, draw float64) time.Duration {
	timeout := p.timeout(s)
	hop := min(timeout, maxHop)
	if p.ProbeCount > 0 {
		hop = min(hop, p.probeAfter(timeout, draw))
	}
	if p.Pressed > 0 {
		hop = min(hop, p.scaled(p.Pressed, timeout))
	}
	return max(hop, p.Tick)
}

// FirstLook returns how long after its opening its first decision comes, with First. hop
// is its Hop.
func (p *Policy) FirstLook(life Life, hop time.Duration) time.Duration {
	if life.Untold() { // nobody may touch for the first sign of life, and the timeout begins with it
		return min(p.First, hop)
	}
	return p.First
}

// blur returns by how much an instant of a touch may be too early or too late.
func (p *Policy) blur() time.Duration { return max(p.Tick, p.Sleep) }

// timeout returns how long a connection may be silent without pressure.
func (p *Policy) timeout(s State) time.Duration {
	if s.Own > 0 {
		return s.Own
	}
	return p.Timeout
}

// scaled returns what a duration of the policy is for a connection with a timeout of its
// own: stretched in proportion.
func (p *Policy) scaled(d, timeout time.Duration) time.Duration {
	if timeout == p.Timeout {
		return d
	}
	return Saturated(float64(d) * (float64(timeout) / float64(p.Timeout)))
}

// pressed returns what a timeout becomes under pressure, from 0 for none to 1 for full.
func (p *Policy) pressed(timeout time.Duration, pressure float64) time.Duration {
	if p.Pressed == 0 {
		return timeout
	}
	shortest := p.scaled(p.Pressed, timeout)
	return timeout - min(timeout, Saturated(float64(timeout-shortest)*pressure))
}
