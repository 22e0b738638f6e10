package keepalive

import (
	"fmt"
	"time"
)

// probe sends the probe with that number. It returns why the connection is to be
// closed at once: because that failed.
func (k *Keeper) probe(p *policy, g *Guard, number int) Reason {
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
		return ReasonNoAnswer
	}
	k.probes.Add(1)
	wait := p.scaled(p.ProbeTimeout, k.timeoutOf(p, d))
	k.postpone(g, probing, uint8(number), ReasonNoAnswer, wait)
	return 0
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
		k.trips.add(roundTrip)
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
