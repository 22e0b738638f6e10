package fleet

import (
	"slices"
	"time"

	"github.com/heartwheel-go/heartwheel/loadtest/internal/latency"
	"github.com/heartwheel-go/heartwheel/loadtest/plot"
)

// someNodes is how many nodes have lines of their own.
const someNodes = 5

// Charts returns the plots of a fleet. ends are the ends of the intervals of the run; all but the last
// have the same length. overTime makes a chart of series with a value for each interval.
func (r *Report) Charts(ends []time.Duration, overTime func(title, note string, unit plot.Unit, series ...plot.Series) plot.Chart) []plot.Chart {
	return []plot.Chart{
		overTime("Sessions by node", "As their clients know it.", plot.Number, r.sessions(ends)...),
		overTime("Sessions told to be offline, per second", "", plot.Number, r.offlines(ends)),
		r.detectionByLength(),
	}
}

// sessions are the sessions of each node.
func (r *Report) sessions(ends []time.Duration) (series []plot.Series) {
	for i, name := range r.names()[:min(r.Nodes, someNodes)] {
		color := []plot.Color{plot.Blue, plot.Orange, plot.Green, plot.Red, plot.Grey}[i]
		series = append(series, plot.Series{Name: name, Color: color, AtEnd: true, Values: r.held(ends, name)})
	}
	return series
}

// held returns the sessions of all nodes of a name at the end of each interval.
func (r *Report) held(ends []time.Duration, name string) []float64 {
	changes := make([]float64, len(ends))
	interval := func(at time.Duration) int { return min(int(at/ends[0]), len(ends)-1) }
	for _, reg := range r.ledger.registrations {
		if r.ledger.nodes[reg.node].name != name {
			continue
		}
		changes[interval(reg.from)]++
		if reg.to > 0 {
			changes[interval(reg.to)]--
		}
	}
	level := 0.0
	for i, change := range changes {
		level += change
		changes[i] = level
	}
	return changes
}

// names returns the names of the nodes.
func (r *Report) names() (names []string) {
	for _, n := range r.ledger.nodes {
		if !slices.Contains(names, n.name) {
			names = append(names, n.name)
		}
	}
	return names
}

// offlines are the sessions told to be offline, per second.
func (r *Report) offlines(ends []time.Duration) plot.Series {
	s := plot.Series{Name: "told", Shape: plot.Bars, Color: plot.Blue, Values: make([]float64, len(ends))}
	for _, o := range r.ledger.offlines {
		if i := slices.IndexFunc(ends, func(end time.Duration) bool { return o.at < end }); i >= 0 {
			begin := time.Duration(0)
			if i > 0 {
				begin = ends[i-1]
			}
			s.Values[i] += 1 / (ends[i] - begin).Seconds()
		}
	}
	return s
}

// detectionByLength counts the ends told after the kill by how long after.
func (r *Report) detectionByLength() plot.Chart {
	told := r.findings.detection
	if len(told) == 0 {
		return plot.Chart{}
	}
	bins := plot.NewBins(0, max(latency.Milliseconds(told[len(told)-1]), 0))
	s := plot.Series{Name: "told", Shape: plot.Bars, Color: plot.Blue, Values: bins.Values()}
	for _, d := range told {
		s.Values[bins.Of(latency.Milliseconds(d))]++
	}
	return plot.Chart{
		Title: "How long after the kill they were told to be offline", Note: "All of the killed nodes' sessions whose clients were not back.",
		X: plot.Milliseconds, Y: plot.Number, Edges: bins.Edges(), Series: []plot.Series{s},
		Marks: []plot.Mark{{Name: "a lease, and a second", At: latency.Milliseconds(r.cfg.detectable())}},
	}
}
