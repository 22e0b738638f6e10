package keepalive

import (
	"cmp"
	"errors"
	"time"

	"github.com/heartwheel-go/heartwheel/keepalive/internal/rules"
)

// Verdict is what [Config.OnIdle], or a [Check], says about a connection.
type Verdict time.Duration

const (
	// Close closes the connection.
	Close = Verdict(rules.Condemn)

	// Probe calls Config.Probe.Send. The connection is closed with ReasonNoAnswer unless there
	// is life within Probe.Timeout. Without a Probe.Send it means Close.
	Probe = Verdict(rules.ProbeIt)

	// Ignore leaves the connection alone: OnIdle is not asked again for the same reason before
	// the peer has been heard and has fallen silent once more. After ReasonReadIdle and
	// ReasonWriteIdle only bytes count as heard.
	Ignore = Verdict(rules.Pardon)
)

// Extend is the verdict to let a connection stay for d more, for this once. Zero or less means
// Close.
func Extend(d time.Duration) Verdict { return Verdict(max(d, 0)) }

// askUser asks OnIdle about a connection before its end. A panic, runtime.Goexit, and an invalid
// verdict mean Close.
func (v *visit) askUser(why rules.Reason) {
	a := v.seen.Question(why, v.keeper.now())
	v.call("OnIdle", func() {
		if verdict := rules.Verdict(v.policy.OnIdle(v.conn, Reason(why))); verdict >= rules.Pardon {
			a.Verdict = verdict
		}
	})
}

// Probing says how a silent peer is asked for a sign of life before it is closed, with
// ReasonNoAnswer. Whatever counts as life is an answer.
//
// Connections often fall silent together, and are not all probed together: each has a moment of
// its own in the last quarter of After. The last answer has as much more time.
type Probing struct {
	// Send, if not nil, sends a probe, such as a ping. An error closes the connection at once.
	// It is called by a worker, and on gnet in the connection's event loop. It does not work
	// with ActivityReadWrite: the acknowledgement of the probe itself would be life.
	// A WebSocket has a probe of its own, see package wskeepalive, and the times below.
	Send func(conn any) error

	// After is by when a silent peer is probed first. Zero means half of Config.Timeout.
	After time.Duration

	// Timeout is how long a peer may take to answer; it may be a tick less. Zero means the rest
	// of Config.Timeout after After, shared by Count probes.
	Timeout time.Duration

	// Count is how many probes may go unanswered. Zero means 1; at most 100. After and Count
	// times Timeout must not be more than Config.Timeout.
	Count int
}

func (p *Probing) setDefaults(timeout time.Duration) {
	if p.isZero() {
		return
	}
	p.Count = cmp.Or(p.Count, 1)
	p.After = cmp.Or(p.After, timeout/2)
	if p.Count > 0 {
		p.Timeout = cmp.Or(p.Timeout, max(0, timeout-p.After)/time.Duration(p.Count))
	}
}

// isZero reports whether nothing is set.
func (p Probing) isZero() bool {
	return p.Send == nil && p.After == 0 && p.Timeout == 0 && p.Count == 0
}

// times returns After, Timeout and Count for probes of a connection's own: they have defaults
// even if nothing is set.
func (p Probing) times(timeout, tick time.Duration) (after, wait time.Duration, count int) {
	if p.isZero() {
		after = max(timeout/2, tick)
		return after, max(timeout-after, tick), 1
	}
	return p.After, p.Timeout, p.Count
}

func (p Probing) check(cfg Config) error {
	err := errors.Join(
		notNegative("Probe.After", p.After),
		notNegative("Probe.Timeout", p.Timeout),
		within("Probe.Count", p.Count, maxCount),
	)
	switch {
	case err != nil:
		return err
	case p.isZero():
		return nil
	case p.Send != nil && cfg.Activity == ActivityReadWrite:
		return wrong("Probe.Send with Activity %v, for which the probe itself would be life", cfg.Activity)
	case p.After < cfg.Tick || p.Timeout < cfg.Tick:
		return wrong("Probe.After %v and Probe.Timeout %v, must be at least Tick %v", p.After, p.Timeout, cfg.Tick)
	}
	if left := cfg.Timeout - p.After; left < 0 || p.Timeout > left/time.Duration(p.Count) {
		return wrong("Probe.After %v and %d times Probe.Timeout %v, must not be more than Timeout %v",
			p.After, p.Count, p.Timeout, cfg.Timeout)
	}
	return nil
}

// probe sends a probe, because of ReadIdle, WriteIdle or a silence. After a panic the peer has its time to answer, too: it
// is not to blame.
func (v *visit) probe(why rules.Reason) {
	k, a := v.keeper, v.seen.About(why)
	a.Probed = rules.Sent
	send := func() error { return v.policy.Probe.Send(v.conn) }
	if up := v.upgradeNow(); up != nil {
		send = up.probe
	}
	now := max(1, k.now())
	v.mu.Lock()
	if u := v.extrasLocked(); u.probed == 0 || v.state().Silence.Stage != rules.Probing { // else the answer may be one to an earlier probe
		u.probed = now
	}
	v.mu.Unlock()
	v.call("Probe.Send", func() {
		if err := send(); err != nil {
			k.log.Debug("keepalive: a probe could not be sent", "error", err)
			a.Probed = rules.Failed
		}
	})
	if a.Probed == rules.Sent {
		k.counts.probes.Add(1)
	}
}

// Pong is called for the peer's answer to a probe. It is a Touch, and the time since the probe
// is the round trip, or 0 if there was no probe to answer. After several probes it is the time since the
// first of them, the longest that the round trip may have been. Time for which the process was stopped does
// not count, and just after it a round trip may be 0. ok is the result of the Touch.
func (g *Guard) Pong() (roundTrip time.Duration, ok bool) {
	if !g.isOpen() {
		return 0, false
	}
	g.mu.Lock()
	if u := g.extrasNow(); u.probed != 0 {
		roundTrip = time.Duration(max(0, g.keeper.now()-u.probed)) // just after a stop, now may be the last look at the clock
		u.probed, u.roundTrip = 0, roundTrip
		if roundTrip > 0 {
			u.meanTrip += (roundTrip - cmp.Or(u.meanTrip, roundTrip)) / 8
			u.meanTrip = cmp.Or(u.meanTrip, roundTrip)
		}
	}
	g.mu.Unlock()
	if roundTrip > 0 {
		g.keeper.trips.observe(roundTrip)
	}
	return roundTrip, g.Touch()
}
