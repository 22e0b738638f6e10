package rules

import (
	"cmp"
	"math"
	"time"
)

// Policy is what a Keeper wants of its connections. A zero field turns its policy off,
// unless the field says otherwise.
type Policy struct {
	Tick    time.Duration // precision of the Keeper; required
	Blur    time.Duration // by how much an instant of a touch may be too early or too late; required
	Timeout time.Duration // how long a peer may be silent; required

	First               time.Duration // time for the first message, in place of Timeout
	ReadIdle, WriteIdle time.Duration // how long nothing may be read, or written

	WriteStall time.Duration // how long bytes may wait of which the peer takes none
	MaxUnsent  int           // bytes that may wait to be sent

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
	Paced  bool // a rate bounds how many connections are closed
	DryRun bool // nobody is closed
}

// maxHop bounds how long after a touch a connection is looked at first: a change of the
// policy reaches each connection by then.
const maxHop = time.Minute

// Hop returns how long after a touch a connection is looked at first: the first instant at
// which something may have to be decided. draw is Evidence.Draw. With First, it is looked at by then after its opening, too.
func (p *Policy) Hop(s State, draw float64) time.Duration {
	t := p.times(s, draw, 1)
	return max(min(t.timeout, t.pressed, t.probe, maxHop), p.Tick)
}

// times are the durations of a policy for one connection. A timeout of its own stretches all of them in proportion.
//
// A connection is probed at a moment of its own in the last quarter of ProbeAfter, so connections are not probed
// together if they fell silent together. The last answer has as much more time: nobody is closed sooner for it.
type times struct {
	timeout time.Duration // how long it may be silent
	pressed time.Duration // the same under pressure
	probe   time.Duration // silence before the first probe; without probes, longer than any silence
	early   time.Duration // how much sooner than ProbeAfter that is
	answer  time.Duration // for an answer to a probe; a timeout if probes are gone since it was sent

	patience time.Duration // how long it may be silent in its first stage
	then     Reason        // to close it, if nothing more comes then
}

// times returns the durations for a connection under pressure, from 0 for none to 1 for full.
func (p *Policy) times(s State, draw, pressure float64) times {
	t := times{timeout: cmp.Or(s.Own, p.Timeout), probe: math.MaxInt64}
	stretched := func(d time.Duration) time.Duration {
		if t.timeout == p.Timeout {
			return d
		}
		return Saturated(float64(d) * (float64(t.timeout) / float64(p.Timeout)))
	}
	t.pressed, t.answer = t.timeout, stretched(cmp.Or(p.ProbeTimeout, p.Timeout))
	if p.Pressed > 0 {
		t.pressed -= min(t.timeout, Saturated(float64(t.timeout-stretched(p.Pressed))*pressure))
	}
	if p.ProbeCount > 0 {
		after := stretched(p.ProbeAfter)
		t.early = time.Duration(float64(after/4) * draw)
		t.probe = after - t.early
	}
	switch t.patience, t.then = t.pressed, Idle; {
	case s.Silence.Stage == Opened:
		t.patience, t.then = cmp.Or(p.First, t.timeout), FirstMessage
	case t.probe < t.pressed:
		t.patience, t.then = t.probe, NoAnswer
	}
	return t
}
