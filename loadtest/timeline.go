package main

import "time"

// timeline says when the phases of a run begin, in time since its start. It is
// known when all connections are open.
type timeline struct {
	steady    time.Duration // all are open; some fall silent
	steadyEnd time.Duration // until here nobody is closed and nothing special happens
	storm     time.Duration // from here all fall silent, with -storm
	closing   time.Duration // from here silent ones are closed
	settling  time.Duration // the last deadlines have passed
	end       time.Duration // what is not closed by now is not closed in time
}

func (cfg config) timeline(steady time.Duration) *timeline {
	t := &timeline{
		steady:   steady,
		closing:  steady + cfg.timeout - cfg.interval, // the last heartbeat was an interval ago
		settling: steady + cfg.duration,
		end:      steady + cfg.duration + cfg.margin(),
	}
	t.steadyEnd = t.closing
	if cfg.fleet.Nodes > 0 { // what comes then sets the end
		t.steadyEnd, t.closing = steady+cfg.fleet.Steady, steady+cfg.fleet.Steady
		t.settling, t.end = longest, longest
	}
	if cfg.storm {
		t.storm = t.settling - stormTime - cfg.timeout
		t.closing = t.storm + cfg.timeout
		t.steadyEnd = t.storm
	}
	return t
}

// phase is a part of a run with figures of its own.
type phase int

const (
	ramping phase = iota
	steady
	closing
	phases
)

func (cfg config) phaseNames() [phases]string {
	if cfg.fleet.Nodes > 0 {
		return [phases]string{"ramp", "steady", "after"}
	}
	return [phases]string{"ramp", "steady", "closing"}
}

// at returns the phase of a time. Without a timeline it is the ramp.
func (t *timeline) at(now time.Duration) phase {
	switch {
	case t == nil || now < t.steady:
		return ramping
	case now < t.closing:
		return steady
	default:
		return closing
	}
}
