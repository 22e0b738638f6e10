// Package plot draws charts for a page in a single file: SVG and a little HTML around it, without
// scripts or other files. They are as wide as they may be, have a light and a dark scheme, and tell
// their figures under the mouse.
package plot

import (
	"html/template"
	"math"
)

// Chart is one plot: its series over intervals with common edges.
type Chart struct {
	Title string
	Note  string // what is seen here, one sentence or two

	// Edges of the intervals, ascending: one more than each series has values.
	Edges []float64
	X, Y  Unit

	// Log is a logarithmic Y axis. Values of 0 or less are at its bottom.
	Log bool

	Series []Series
	Bands  []Band
	Marks  []Mark  // vertical lines
	Limits []Limit // horizontal lines
}

// Series is one quantity.
type Series struct {
	Name   string
	Values []float64 // NaN for none, and beyond a googol
	Shape  Shape
	Color  Color
	Dashed bool

	// AtEnd says that a value is of the end of its interval, not of all of it.
	AtEnd bool
}

// Shape says how a series is drawn.
type Shape int

// The shapes.
const (
	Line  Shape = iota
	Area        // a line, and what is below it
	Bars        // as wide as the intervals, on top of the bars of the series before
	Range       // no line of its own: what is between the two series before
)

// Color is one of a few colors that most people can tell from each other, after Okabe and Ito. The
// style sheet has their looks. The default is blue.
type Color string

// The colors.
const (
	Blue   Color = "blue"
	Orange Color = "orange"
	Red    Color = "red"
	Green  Color = "green"
	Grey   Color = "grey"
)

// Band is a part of the X axis with a name.
type Band struct {
	Name     string
	From, To float64
}

// Mark is a place on the X axis with a name.
type Mark struct {
	Name string
	At   float64
}

// Limit is a value with a name. It is drawn if the values come near it.
type Limit struct {
	Name string
	At   float64
}

// largest is what a value or an edge may be: to round it up gives no infinity.
const largest = 1e100

// missing reports whether there is no value.
func missing(v float64) bool { return math.IsNaN(v) || math.Abs(v) > largest }

// Empty reports whether there is nothing to draw: no value of any series, or none
// but zero.
func (c Chart) Empty() bool {
	for _, s := range c.Series {
		for _, v := range s.Values {
			if !missing(v) && v != 0 {
				return false
			}
		}
	}
	return true
}

// HTML returns the chart as a figure element. It is well-formed XML, too.
func (c Chart) HTML() (template.HTML, error) { return c.draw() }
