package main

import (
	"math"

	"github.com/heartwheel-go/heartwheel/loadtest/plot"
)

const (
	someBars = 40

	// narrowest is how wide a bar is at least, in milliseconds.
	narrowest = 0.1
)

// latenessByLength shows how many closes were how late, or how early.
func latenessByLength(cfg config, res *result) plot.Chart {
	early, late := -res.ahead.latency().Max, res.late.latency().Max
	width := math.Max(narrowest, plot.Milliseconds.Round((late-early)/someBars))
	first, next := int(math.Floor(early/width)), int(math.Floor(late/width))+1
	c := plot.Chart{
		Title: "How late the closes were",
		Note:  "All of them. 0 is the deadline, and what is left of it was early.",
		X:     plot.Milliseconds, Y: plot.Number,
		Series: []plot.Series{
			{Name: "closed after the deadline", Shape: plot.Bars, Color: plot.Blue, Values: make([]float64, next-first)},
			{Name: "closed too early", Shape: plot.Bars, Color: plot.Red, Values: make([]float64, next-first)},
		},
	}
	for i := first; i <= next; i++ {
		c.Edges = append(c.Edges, float64(i)*width)
	}
	bar := func(ms float64) int { return min(max(int(math.Floor(ms/width))-first, 0), next-first-1) }
	res.late.each(func(ms float64, n int64) { c.Series[0].Values[bar(ms)] += float64(n) })
	res.ahead.each(func(ms float64, n int64) { c.Series[1].Values[bar(-ms)] += float64(n) })
	if res.early == 0 {
		c.Series = c.Series[:1]
		c.Note = "All of them. 0 is the deadline."
	}
	for _, l := range cfg.limits() {
		c.Marks = append(c.Marks, plot.Mark(l))
	}
	return c
}
