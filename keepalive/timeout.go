package keepalive

import (
	"fmt"
	"math"
	"time"
)

// SetTimeout gives a connection a timeout of its own, longer or shorter than that of
// the config, which begins now, or with the first message where that is waited for. What the config says in shares of its Timeout, such as
// ProbeAfter, is stretched with it. It returns the timeout that is in force, which
// Config.MinTimeout and MaxTimeout bound; [ErrArgument] where d is not positive, and
// [ErrNotGuarded] where the connection is not guarded, or not any more.
func (k *Keeper) SetTimeout(conn any, d time.Duration) (time.Duration, error) {
	if d <= 0 {
		return 0, fmt.Errorf("%w: timeout %v, must be positive", ErrArgument, d)
	}
	g := k.guardOf(conn)
	if g == nil {
		return 0, ErrNotGuarded
	}
	p := k.policy.Load()
	d = p.clamped(d)
	err := k.begin(p, g, d)
	k.detailsOf(g).timeout.Store(int64(d)) // after the touch, or a look between them would apply it to the silence before
	if err != nil {
		return 0, err
	}
	return d, nil
}

// begin begins a timeout now, unless it is the first message that is waited for.
func (k *Keeper) begin(p *policy, g *Guard, timeout time.Duration) error {
	hop := p.hop(g, timeout)
	if g.isFirst(p.Tick) {
		g.member.Retime(hop)
		return nil
	}
	if g.member.SetTimeout(hop) != nil {
		return ErrNotGuarded
	}
	return nil
}

// SetInterval is SetTimeout for a peer that has said how often it will send a
// heartbeat: its timeout is Config.Multiplier times that. With MQTT that is the
// keepalive of its CONNECT. Zero or less means that it will send none, and that its
// timeout is that of the config again.
func (k *Keeper) SetInterval(conn any, beat time.Duration) (time.Duration, error) {
	p := k.policy.Load()
	if beat > 0 {
		return k.SetTimeout(conn, max(1, saturated(float64(beat)*p.Multiplier)))
	}
	g := k.guardOf(conn)
	if g == nil {
		return 0, ErrNotGuarded
	}
	err := k.begin(p, g, p.Timeout)
	if d := g.details.Load(); d != nil {
		d.timeout.Store(0)
	}
	if err != nil {
		return 0, err
	}
	return p.Timeout, nil
}

// Deadline returns when a connection will be closed at the earliest, if nothing more
// is heard of its peer, and for what reason. It is what is known at the moment: a
// verdict of OnIdle, bytes that wait in the socket, pressure or [Keeper.Update] can
// change it. The zero time and reason 0 mean that nothing ends it, as long as it is held
// (see [Keeper.Hold]). It reports false for a connection that is not guarded.
func (k *Keeper) Deadline(conn any) (at time.Time, reason Reason, ok bool) {
	g := k.guardOf(conn)
	if g == nil {
		return time.Time{}, 0, false
	}
	p, d := k.policy.Load(), g.details.Load()
	left, reason := time.Duration(math.MaxInt64), Reason(0)
	if d == nil || d.holds.Load() == 0 {
		left, reason = k.silenceLeft(p, g, d)
	}
	if d != nil {
		if age, why := d.ageLeft(k, p); age < left {
			left, reason = age, why
		}
	}
	if reason == 0 {
		return time.Time{}, 0, true
	}
	return time.Now().Add(max(left, 0)), reason, true
}

// silenceLeft returns how long a connection may still be silent.
func (k *Keeper) silenceLeft(p *policy, g *Guard, d *details) (time.Duration, Reason) {
	switch s, count, why := d.at(g.member.Stamp()); s {
	case probing:
		left := g.member.Left()
		if int(count) < p.ProbeCount {
			left = sum(left, k.probing(p, g, d, p.ProbeCount-int(count)))
		}
		return left, why
	case queued:
		return 0, why
	case extended, ignored:
		return g.member.Left(), why
	}
	patience, why := k.patience(p, g, d)
	if why == ReasonNoAnswer {
		patience = sum(patience, k.probing(p, g, d, p.ProbeCount))
	}
	return sum(patience-g.member.Idle(), k.pool.Tick()), why
}

// probing returns how long it takes until the last so many probes have not been answered.
func (k *Keeper) probing(p *policy, g *Guard, d *details, probes int) time.Duration {
	timeout := k.timeoutOf(p, d)
	return sum(saturated(float64(probes)*float64(p.scaled(p.ProbeTimeout, timeout))), p.probedEarly(g, timeout))
}

// sum returns the sum of two durations of which the second is not negative, or the
// longest that there is.
func sum(a, b time.Duration) time.Duration {
	if a > math.MaxInt64-b {
		return math.MaxInt64
	}
	return a + b
}

// ageLeft returns how much older the connection may become, or until when it has
// been condemned.
func (d *details) ageLeft(k *Keeper, p *policy) (time.Duration, Reason) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.doom != 0 {
		return 0, d.doom
	}
	until, why := d.ages, ReasonMaxAge
	if until == never {
		return math.MaxInt64, why
	}
	left := saturated(float64(until-min(until, k.pool.Now())) * float64(k.pool.Tick()))
	if !d.aged {
		left = sum(left, p.MaxAgeGrace)
	}
	return left, why
}
