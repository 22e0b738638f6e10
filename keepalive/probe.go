package keepalive

import (
	"fmt"
	"time"
)

// lastProbe is the number of a probe that OnIdle has asked for: after it there is none,
// and no more question.
const lastProbe = 255

// probe sends the probe with that number and waits for the answer. It reports false
// where that failed.
func (k *Keeper) probe(p *policy, g *Guard, number int) bool {
	d := k.detailsOf(g)
	d.mu.Lock()
	d.probed = time.Now()
	d.mu.Unlock()
	err := error(nil)
	k.call("Probe", func() {
		err = fmt.Errorf("%w: Probe panicked", ErrArgument)
		err = p.Probe(g.conn)
	})
	if err != nil {
		k.log.Debug("keepalive: a probe could not be sent", "error", err)
		return false
	}
	k.probes.Add(1)
	timeout := k.timeoutOf(p, d)
	wait := p.scaled(p.ProbeTimeout, timeout)
	if number == p.ProbeCount {
		wait = sum(wait, p.probedEarly(g, timeout))
	}
	d.mu.Lock()
	d.answerBy = k.pool.TickIn(wait)
	d.mu.Unlock()
	k.postpone(g, probing, uint8(number), ReasonNoAnswer, k.untilAsked(p, wait))
	return true
}

// untilAsked returns after what part of the time for an answer to look for it. An
// answer is a touch, unless only the kernel knows of it: that is asked four times, so
// that the next silence is measured from about the answer.
func (k *Keeper) untilAsked(p *policy, wait time.Duration) time.Duration {
	if k.activity == ActivityKernel {
		return max(wait/4, p.Tick)
	}
	return wait
}

// answerMayCome reports whether the time for the answer to the last probe is not over
// yet, and waits for it.
func (k *Keeper) answerMayCome(p *policy, g *Guard, d *details, number uint8) bool {
	d.mu.Lock()
	by := d.answerBy
	d.mu.Unlock()
	now := k.pool.Now()
	if k.activity != ActivityKernel || now >= by {
		return false
	}
	wait := k.untilAsked(p, p.scaled(p.ProbeTimeout, k.timeoutOf(p, d)))
	k.postpone(g, probing, number, ReasonNoAnswer, min(wait, time.Duration(by-now)*p.Tick))
	return true
}

// Pong says that the peer of a connection has answered a probe: it lives, as with
// Touch, and the time since the probe is its round trip. It returns that, or 0 where
// there was no probe to answer. ok is what Touch would say.
func (k *Keeper) Pong(conn any) (roundTrip time.Duration, ok bool) {
	g := k.guardOf(conn)
	if g == nil {
		return 0, false
	}
	if d := g.details.Load(); d != nil {
		d.mu.Lock()
		if !d.probed.IsZero() {
			roundTrip = time.Since(d.probed)
			d.probed, d.roundTrip = time.Time{}, roundTrip
		}
		d.mu.Unlock()
	}
	if roundTrip > 0 {
		k.trips.observe(roundTrip)
	}
	return roundTrip, g.Touch()
}

// RoundTrip returns how long the last answer of a peer to a probe took, see
// [Keeper.Pong], or 0 where there was none.
func (k *Keeper) RoundTrip(conn any) time.Duration {
	if g := k.guardOf(conn); g != nil {
		if d := g.details.Load(); d != nil {
			d.mu.Lock()
			defer d.mu.Unlock()
			return d.roundTrip
		}
	}
	return 0
}
