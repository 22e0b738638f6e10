package rules

import "time"

// Edges are the counted lengths of silence, in thousandths of the timeout. A connection stops
// at each, for an exact count. A silence reaches 1000 and more only if nobody is closed: with
// DryRun, or because the user lets a connection live.
var Edges = [...]time.Duration{125, 250, 375, 500, 625, 750, 800, 875, 1000, 1250, 1500, 1750, 2000}

const (
	nearMiss     = 6 // index of the edge: beyond it, a connection was nearly closed
	wholeTimeout = 8
)

// EdgeOf returns the length of an edge, for a timeout.
func EdgeOf(timeout time.Duration, edge int) time.Duration {
	return Saturated(float64(timeout) * (float64(Edges[edge]) / 1000))
}

// nextEdge returns when the silence reaches the next edge, or Never.
func (d *decision) nextEdge() Time {
	edge := int(d.s.Silence.Edge)
	if !d.p.Advises || edge == len(Edges) || d.s.Holds > 0 { // held: no silence
		return Never
	}
	return d.e.Touched.Add(EdgeOf(d.p.timeout(d.s), edge))
}

// countEdges counts the edges reached by the silence.
func (d *decision) countEdges() {
	d.out.Edges[0] = int(d.s.Silence.Edge)
	for d.nextEdge() <= d.now {
		d.s.Silence.Edge++
	}
	d.out.Edges[1] = int(d.s.Silence.Edge)
}

// endSilence begins a new silence.
func (d *decision) endSilence() {
	if edge := d.s.Silence.Edge; d.p.Advises && edge > nearMiss && edge <= wholeTimeout {
		d.out.NearMiss = true
	}
	d.s.Silence = Silence{}
}
