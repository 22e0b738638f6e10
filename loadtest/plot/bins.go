package plot

import "math"

// Bins are the intervals of a histogram over milliseconds, all of one round width.
type Bins struct {
	width       float64
	first, next int // in widths from 0
}

const (
	someBins = 40 // about

	narrowestBin = 0.1
)

// NewBins returns about 40 bins from low to high, at least 0.1 ms wide.
func NewBins(low, high float64) Bins {
	b := Bins{width: math.Max(narrowestBin, Milliseconds.Round((high-low)/someBins))}
	b.first, b.next = int(math.Floor(low/b.width)), int(math.Floor(high/b.width))+1
	return b
}

// Edges are the limits of all bins.
func (b Bins) Edges() (edges []float64) {
	for i := b.first; i <= b.next; i++ {
		edges = append(edges, float64(i)*b.width)
	}
	return edges
}

// Values returns a zero for each bin.
func (b Bins) Values() []float64 { return make([]float64, b.next-b.first) }

// Of returns the bin of a value, or the nearest.
func (b Bins) Of(ms float64) int {
	return min(max(int(math.Floor(ms/b.width))-b.first, 0), b.next-b.first-1)
}
