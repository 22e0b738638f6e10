package main

import (
	"math"
	"runtime"
	"slices"
	"time"

	"github.com/heartwheel-go/heartwheel/internal/figures"
	"github.com/heartwheel-go/heartwheel/loadtest/internal/latency"
	"github.com/heartwheel-go/heartwheel/loadtest/plot"
)

// charts are the plots of a page, without the empty ones.
func (h *history) charts(cfg config, res *result) []plot.Chart {
	v := view{cfg: cfg, history: h, points: h.points()}
	charts := []plot.Chart{
		v.connections(), v.closes(),
		v.roundTrips(roundTrip, "Round trip of a heartbeat"), v.roundTrips(probeRoundTrip, "Round trip of the probes"),
		v.lateness(), latenessByLength(cfg, res),
		v.heartbeats(), v.lag(),
		v.processors(), v.memory(),
	}
	if res.fleet != nil {
		charts = slices.Insert(charts, 1, res.fleet.Charts(v.ends(), v.chart)...)
	}
	return slices.DeleteFunc(charts, plot.Chart.Empty)
}

// view is a history as it is drawn.
type view struct {
	*history
	cfg    config
	points []point
}

// chart returns a chart over the time of the run.
func (v *view) chart(title, note string, unit plot.Unit, series ...plot.Series) plot.Chart {
	c := plot.Chart{Title: title, Note: note, X: plot.Elapsed, Y: unit, Series: series, Bands: v.bands()}
	for _, p := range v.points {
		c.Edges = append(c.Edges, p.from.Seconds())
	}
	c.Edges = append(c.Edges, v.points[len(v.points)-1].to.Seconds())
	if v.line != nil && v.line.storm > 0 {
		c.Marks = append(c.Marks, plot.Mark{Name: "all fall silent", At: v.line.storm.Seconds()})
	}
	if v.cfg.fleet.Kill > 0 && v.line != nil && v.line.closing < v.end {
		c.Marks = append(c.Marks, plot.Mark{Name: "killed", At: v.line.closing.Seconds()})
	}
	return c
}

// ends are the ends of the points.
func (v *view) ends() (ends []time.Duration) {
	for _, p := range v.points {
		ends = append(ends, p.to)
	}
	return ends
}

// bands are the phases, as far as the run has come.
func (v *view) bands() (bands []plot.Band) {
	begins := [phases + 1]time.Duration{0, v.end, v.end, v.end}
	if v.line != nil {
		begins[steady] = v.line.steady
		if v.line.closing > 0 {
			begins[closing] = v.line.closing
		}
	}
	for p := range phases {
		from, to := min(begins[p], v.end), min(begins[p+1], v.end)
		if from < to {
			bands = append(bands, plot.Band{Name: v.cfg.phaseNames()[p], From: from.Seconds(), To: to.Seconds()})
		}
	}
	return bands
}

// series returns a value for each point.
func (v *view) series(s plot.Series, value func(point) float64) plot.Series {
	for _, p := range v.points {
		s.Values = append(s.Values, value(p))
	}
	return s
}

// level returns what there is at the end of each point: plus counts for it, minus
// against it.
func (v *view) level(s plot.Series, plus, minus []event) plot.Series {
	s.AtEnd = true
	var n int64
	return v.series(s, func(p point) float64 {
		for _, e := range plus {
			n += p.events[e]
		}
		for _, e := range minus {
			n -= p.events[e]
		}
		return float64(n)
	})
}

// rate returns how many per second.
func (v *view) rate(s plot.Series, e event) plot.Series {
	return v.series(s, func(p point) float64 { return float64(p.events[e]) / p.seconds() })
}

// wait returns the median, the 99th percentile and the largest.
func (v *view) wait(w wait) []plot.Series {
	p50 := func(p point) float64 { return p.waits[w].p50 }
	p99 := func(p point) float64 { return p.waits[w].p99 }
	largest := func(p point) float64 { return p.waits[w].max }
	return []plot.Series{
		v.series(plot.Series{Name: "p50", Color: plot.Blue}, p50),
		v.series(plot.Series{Name: "p99", Color: plot.Orange}, p99),
		{Shape: plot.Range, Color: plot.Blue, Values: make([]float64, len(v.points))},
		v.series(plot.Series{Name: "max", Color: plot.Grey, Dashed: true}, largest),
	}
}

func (v *view) connections() plot.Chart {
	series := []plot.Series{
		v.level(plot.Series{Name: "open", Shape: plot.Area, Color: plot.Blue},
			[]event{opened}, []event{closedDue, closedEarly, closedLive, closedAfter, closedWithNode}),
		v.level(plot.Series{Name: "of those silent", Shape: plot.Area, Color: plot.Orange},
			[]event{fellSilent}, []event{silentGone}),
	}
	failed := v.level(plot.Series{Name: "failed", Color: plot.Red}, []event{notOpened}, nil)
	if slices.Max(failed.Values) > 0 {
		series = append(series, failed)
	}
	return v.chart("Connections", "", plot.Number, series...)
}

func (v *view) closes() plot.Chart {
	series := []plot.Series{v.rate(plot.Series{Name: "silent, after the deadline", Shape: plot.Bars, Color: plot.Blue}, closedDue)}
	for _, wrong := range []struct {
		event
		plot.Series
	}{
		{closedEarly, plot.Series{Name: "silent, too early", Shape: plot.Bars, Color: plot.Red}},
		{closedLive, plot.Series{Name: "live, wrongly", Shape: plot.Bars, Color: plot.Orange}},
	} {
		if s := v.rate(wrong.Series, wrong.event); slices.Max(s.Values) > 0 {
			series = append(series, s)
		}
	}
	return v.chart("Closed by the server, per second", "", plot.Number, series...)
}

func (v *view) roundTrips(w wait, title string) plot.Chart {
	c := v.chart(title, "From when a heartbeat was due to its answer.", plot.Milliseconds, v.wait(w)...)
	c.Log = true
	return c
}

func (v *view) lateness() plot.Chart {
	c := v.chart("Lateness of the closes", "From the deadline, which is the last heartbeat and the timeout, to the close as the client saw it.",
		plot.Milliseconds, v.wait(lateness)...)
	c.Limits = v.cfg.limits()
	return c
}

// limits are what a close is measured by.
func (cfg config) limits() []plot.Limit {
	limits := []plot.Limit{{Name: "the run fails from here", At: latency.Milliseconds(cfg.margin())}}
	if cfg.addr == "" && cfg.baseline == "" && cfg.tick > 0 {
		limits = append(limits, plot.Limit{Name: "two ticks", At: latency.Milliseconds(2 * cfg.tick)})
	}
	return limits
}

func (v *view) heartbeats() plot.Chart {
	series := []plot.Series{v.rate(plot.Series{Name: "sent", Shape: plot.Area, Color: plot.Blue}, sent)}
	if answers := v.rate(plot.Series{Name: "answered", Color: plot.Green, Dashed: true}, answered); slices.Max(answers.Values) > 0 {
		series = append(series, answers)
	}
	return v.chart("Heartbeats per second", "", plot.Number, series...)
}

func (v *view) lag() plot.Chart {
	c := v.chart("Delay of this program", "From when a heartbeat was due until it was sent: a part of the round trip that is not the server's.",
		plot.Milliseconds, v.wait(lag)...)
	c.Log = true
	return c
}

// sampled returns a chart of what the processes have used: as wide as the run, with
// the intervals of the samples.
func (v *view) sampled(title, note string, unit plot.Unit, series []plot.Series, values ...func(sample) float64) plot.Chart {
	c := v.chart(title, note, unit)
	c.Edges = []float64{0}
	for _, s := range v.samples {
		if s.at.Seconds() <= c.Edges[len(c.Edges)-1] {
			continue
		}
		c.Edges = append(c.Edges, s.at.Seconds())
		for i := range series {
			series[i].Values = append(series[i].Values, values[i](s))
		}
	}
	if end := v.end.Seconds(); end > c.Edges[len(c.Edges)-1] {
		c.Edges = append(c.Edges, end)
		for i := range series {
			series[i].Values = append(series[i].Values, math.NaN())
		}
	}
	c.Series = series
	return c
}

func (v *view) processors() plot.Chart {
	series := []plot.Series{
		{Name: "servers", Shape: plot.Area, Color: plot.Blue},
		{Name: "this program", Color: plot.Orange},
		{Name: "all else", Color: plot.Grey, Dashed: true},
	}
	values := []func(sample) float64{
		func(s sample) float64 { return s.serverCores },
		func(s sample) float64 { return s.cores },
		func(s sample) float64 { return s.others },
	}
	if v.cfg.addr != "" {
		series, values = series[1:], values[1:]
	}
	c := v.sampled("Processors kept busy", "", plot.Number, series, values...)
	cores := runtime.NumCPU()
	c.Limits = []plot.Limit{{Name: figures.Plural(cores, "core"), At: float64(cores)}}
	return c
}

func (v *view) memory() plot.Chart {
	series := []plot.Series{
		{Name: "servers", Shape: plot.Area, Color: plot.Blue, AtEnd: true},
		{Name: "this program", Color: plot.Orange, AtEnd: true},
	}
	values := []func(sample) float64{
		func(s sample) float64 { return float64(s.serverBytes) },
		func(s sample) float64 { return float64(s.bytes) },
	}
	if v.cfg.addr != "" {
		series, values = series[1:], values[1:]
	}
	return v.sampled("Resident memory", "", plot.Bytes, series, values...)
}
