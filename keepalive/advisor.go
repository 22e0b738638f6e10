package keepalive

import (
	"sync/atomic"
	"time"
)

// advisor counts silences by their length, in shares of the timeout of the
// connection. It looks at a silent connection at each of its edges, so what it
// counts is exact, and a connection that is not silent for an eighth of its timeout
// costs nothing.
type advisor struct {
	reached    [len(edges)]atomic.Uint64
	nearMisses atomic.Uint64
}

// edges are in thousandths of the timeout. Those from 1000 on are reached only where
// nobody is closed: with DryRun, or where OnIdle lets them live.
var edges = [...]time.Duration{125, 250, 375, 500, 625, 750, 800, 875, 1000, 1250, 1500, 1750, 2000}

// nearMiss is the edge from which on a connection was nearly closed: the last fifth.
const nearMiss = 6

const wholeTimeout = 8

// Advice is what the Keeper has learnt about how long its peers are silent, since
// it was made or since [Keeper.Update] last changed Timeout.
type Advice struct {
	// Timeout is that of the config, of which the edges are shares. Those of
	// connections with a timeout of their own are counted by their share of that.
	Timeout time.Duration

	// Silences are, for lengths from an eighth of the timeout up to twice that, how
	// many silences were at least so long.
	Silences []Silences

	// NearMisses are silences that ended in the last fifth of the timeout.
	NearMisses uint64
}

// Silences are how many silences were at least so long.
type Silences struct {
	Share  float64       // of the timeout
	Length time.Duration // the same for Config.Timeout
	Count  uint64
}

// WouldClose returns how many connections would have been closed if the timeout had
// been that share of what it was: from 0.125 to 2, or the next one below that is in
// Silences. Beyond 1 it takes Config.DryRun to know: without, those that were closed
// at 1 are not there any more to tell.
func (a Advice) WouldClose(share float64) (n uint64) {
	for _, s := range a.Silences {
		if s.Share > share {
			break
		}
		n = s.Count
	}
	return n
}

// Advice returns what Config.Advise has found. It is empty without that.
func (k *Keeper) Advice() Advice {
	p := k.policy.Load()
	advice := Advice{Timeout: p.Timeout}
	if p.advisor == nil {
		return advice
	}
	advice.NearMisses = p.advisor.nearMisses.Load()
	for i, edge := range edges {
		advice.Silences = append(advice.Silences, Silences{
			Share:  float64(edge) / 1000,
			Length: edgeOf(p.Timeout, i),
			Count:  p.advisor.reached[i].Load(),
		})
	}
	return advice
}

// edgeOf returns the length of an edge.
func edgeOf(timeout time.Duration, edge int) time.Duration {
	return saturated(float64(timeout) * (float64(edges[edge]) / 1000))
}

// awaitEdges is await for a policy with an advisor: it stops at each edge on the way.
// stamp is that of the deadline for which it waits.
func (k *Keeper) awaitEdges(p *policy, g *Guard, d *details, patience time.Duration) (stamp uint64, waits bool) {
	timeout := k.timeoutOf(p, d)
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.edge > 0 && d.edgeStamp != g.member.Stamp() { // it has been touched since
		if d.edge > nearMiss && d.edge <= wholeTimeout {
			p.advisor.nearMisses.Add(1)
		}
		d.edge = 0
	}
	for {
		next := patience
		atEdge := int(d.edge) < len(edges) && edgeOf(timeout, int(d.edge)) <= patience
		if atEdge {
			next = edgeOf(timeout, int(d.edge))
		}
		if stamp, waits = g.member.Await(next); waits {
			d.edgeStamp = stamp
			return stamp, true
		}
		d.edgeStamp = g.member.Stamp()
		if !atEdge {
			return 0, false
		}
		p.advisor.reached[d.edge].Add(1)
		d.edge++
	}
}

// reachEdges counts the edges that a silence has reached which has not been waited for
// at each of them: while a probe is not answered, say.
func (k *Keeper) reachEdges(p *policy, g *Guard, d *details) {
	timeout, silence := k.timeoutOf(p, d), g.member.Idle()-2*p.Tick // at least
	d.mu.Lock()
	defer d.mu.Unlock()
	for d.edgeStamp == g.member.Stamp() && int(d.edge) < len(edges) && edgeOf(timeout, int(d.edge)) <= silence {
		p.advisor.reached[d.edge].Add(1)
		d.edge++
	}
}

// ignore leaves a connection alone until it is heard again. With an advisor it still
// stops at the edges. Otherwise it is asked once in a timeout: with ActivityKernel nobody
// else would notice that it is heard.
func (k *Keeper) ignore(p *policy, g *Guard, why Reason) {
	d := k.detailsOf(g)
	if p.advisor != nil {
		last := edgeOf(k.timeoutOf(p, d), len(edges)-1)
		if stamp, ok := k.awaitEdges(p, g, d, last); ok {
			d.enter(ignored, 0, why, stamp)
			return
		}
	}
	k.postpone(g, ignored, 0, why, k.timeoutOf(p, d))
}
