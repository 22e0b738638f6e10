package main

import (
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/heartwheel-go/heartwheel/loadtest/plot"
)

// aboutFleet says what was done to the fleet.
func (cfg config) aboutFleet() (sentences []string) {
	say := func(format string, args ...any) { sentences = append(sentences, fmt.Sprintf(format, args...)) }
	if cfg.nodes == 0 {
		return nil
	}
	say("Each connection is a session, whose lease of %v in Redis its node extends every %v.", cfg.lease, cfg.renew)
	if cfg.nodeLease > 0 {
		say("Each node has a lease of %v.", cfg.nodeLease)
	}
	switch {
	case cfg.rolling:
		say("One node after the other was ended and started anew, and its clients went to others. Nobody must be told to be offline.")
	case cfg.kill > 0:
		say("Then %s killed. %s came back elsewhere, at random moments within %v. Who was not back must be told to be offline within %v, and nobody else.",
			verb(cfg.kill, "node"), plural(cfg.returning(), "client"), cfg.comebacks(), cfg.detectable())
	default:
		say("Nothing happened to it, so nobody must be told to be offline.")
	}
	return sentences
}

func verb(n int, what string) string {
	if n == 1 {
		return "1 " + what + " was"
	}
	return plural(n, what) + " were"
}

// tiles are the figures of a fleet that matter most.
func (f *fleetReport) tiles() (tiles []tile) {
	if f == nil {
		return nil
	}
	add := func(bad bool, name, value, format string, args ...any) {
		tiles = append(tiles, tile{Name: name, Value: value, More: fmt.Sprintf(format, args...), Bad: bad})
	}
	ms := plot.Milliseconds.Write
	if k := f.Kill; k != nil {
		add(k.Lost+k.Tardy > 0, "of killed nodes, offline or back", thousands(k.Sessions-k.Lost), "of %s; %s back; %s lost, %s later than %vs",
			thousands(k.Sessions), thousands(k.Back), thousands(k.Lost), thousands(k.Late), k.LimitS)
		add(false, "offline after the kill, p99", ms(k.DetectionMs.P99), "first %s, p50 %s, max %s", ms(k.FirstMs), ms(k.DetectionMs.P50), ms(k.DetectionMs.Max))
	}
	if d := f.Rolling; d != nil {
		add(f.NotBack > 0, "went to another node", thousands(d.Resumed+d.Moved+d.Anew), "%s anew; without a node p50 %s, max %s", thousands(d.Anew), ms(d.GapMs.P50), ms(d.GapMs.Max))
	}
	add(f.Offlines.wrong() > 0, "wrongly told to be offline", thousands(f.Offlines.wrong()), "of %s that were told", thousands(f.Offlines.Told))
	if r := f.Redis; r != nil {
		add(false, "cores of Redis, steady", fmt.Sprintf("%.3f", r.SteadyCores), "%s renewals per second; after that %.3f", thousands(int(f.RenewalsPerSecond)), r.AfterCores)
	}
	return tiles
}

// fleetRows are the settings of a fleet.
func (cfg config) fleetRows() []row {
	return []row{
		{"nodes", thousands(cfg.nodes)},
		{"lease of a session", cfg.lease.String()},
		{"extended every", cfg.renew.String()},
		{"lease of a node", orNone(cfg.nodeLease)},
		{"steady for", cfg.steadyFor.String()},
		{"nodes that are killed", thousands(cfg.kill)},
	}
}

// fleet are the plots of a fleet.
func (v *view) fleet(f *fleetReport) []plot.Chart {
	return []plot.Chart{v.sessions(f), v.offlines(f), detectionByLength(v.cfg, f)}
}

// someNodes is how many nodes have lines of their own.
const someNodes = 5

// sessions shows which node had how many.
func (v *view) sessions(f *fleetReport) plot.Chart {
	var series []plot.Series
	for i, name := range f.names()[:min(v.cfg.nodes, someNodes)] {
		color := []plot.Color{plot.Blue, plot.Orange, plot.Green, plot.Red, plot.Grey}[i]
		series = append(series, plot.Series{Name: name, Color: color, AtEnd: true, Values: v.held(f, name)})
	}
	return v.chart("Sessions by node", "As their clients know it.", plot.Number, series...)
}

// held returns how many sessions a node has at the end of each point, with those of its name
// before.
func (v *view) held(f *fleetReport, name string) []float64 {
	changes := make([]float64, len(v.points)+1)
	point := func(at time.Duration) int {
		return min(int(at/(v.points[0].to-v.points[0].from)), len(v.points)-1)
	}
	for _, r := range f.ledger.registrations {
		if f.ledger.nodes[r.node].name != name {
			continue
		}
		changes[point(r.from)]++
		if r.to > 0 {
			changes[point(r.to)]--
		}
	}
	level := 0.0
	for i, change := range changes[:len(v.points)] {
		level += change
		changes[i] = level
	}
	return changes[:len(v.points)]
}

// names returns the names of the nodes.
func (f *fleetReport) names() (names []string) {
	for _, n := range f.ledger.nodes {
		if !slices.Contains(names, n.name) {
			names = append(names, n.name)
		}
	}
	return names
}

func (v *view) offlines(f *fleetReport) plot.Chart {
	s := plot.Series{Name: "told", Shape: plot.Bars, Color: plot.Blue, Values: make([]float64, len(v.points))}
	for _, o := range f.ledger.offlines {
		if i := slices.IndexFunc(v.points, func(p point) bool { return o.at < p.to }); i >= 0 {
			s.Values[i] += 1 / v.points[i].seconds()
		}
	}
	return v.chart("Sessions told to be offline, per second", "", plot.Number, s)
}

// detectionByLength shows how many sessions were told to be offline how long after the kill.
func detectionByLength(cfg config, f *fleetReport) plot.Chart {
	if len(f.detection) == 0 {
		return plot.Chart{}
	}
	longest := milliseconds(f.detection[len(f.detection)-1])
	width := math.Max(narrowest, plot.Milliseconds.Round(longest/someBars))
	bars := int(max(longest, 0)/width) + 1
	s := plot.Series{Name: "told", Shape: plot.Bars, Color: plot.Blue, Values: make([]float64, bars)}
	c := plot.Chart{Title: "How long after the kill they were told to be offline", Note: "All of the killed nodes' sessions whose clients were not back.", X: plot.Milliseconds, Y: plot.Number}
	for i := range bars + 1 {
		c.Edges = append(c.Edges, float64(i)*width)
	}
	for _, d := range f.detection {
		s.Values[max(int(milliseconds(d)/width), 0)]++
	}
	c.Series = []plot.Series{s}
	c.Marks = []plot.Mark{{Name: "a lease, and a second", At: milliseconds(cfg.detectable())}}
	return c
}
