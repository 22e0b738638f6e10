package main

import "github.com/heartwheel-go/heartwheel/loadtest/plot"

// latenessByLength counts the closes by how late or how early they were.
func latenessByLength(cfg config, res *result) plot.Chart {
	bins := plot.NewBins(-res.ahead.Summary().Max, res.late.Summary().Max)
	c := plot.Chart{
		Title: "How late the closes were",
		Note:  "All of them. 0 is the deadline, and what is left of it was early.",
		X:     plot.Milliseconds, Y: plot.Number, Edges: bins.Edges(),
		Series: []plot.Series{
			{Name: "closed after the deadline", Shape: plot.Bars, Color: plot.Blue, Values: bins.Values()},
			{Name: "closed too early", Shape: plot.Bars, Color: plot.Red, Values: bins.Values()},
		},
	}
	res.late.Each(func(ms float64, n int64) { c.Series[0].Values[bins.Of(ms)] += float64(n) })
	res.ahead.Each(func(ms float64, n int64) { c.Series[1].Values[bins.Of(-ms)] += float64(n) })
	if res.early == 0 {
		c.Series = c.Series[:1]
		c.Note = "All of them. 0 is the deadline."
	}
	for _, l := range cfg.limits() {
		c.Marks = append(c.Marks, plot.Mark(l))
	}
	return c
}
