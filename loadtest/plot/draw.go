package plot

import (
	_ "embed" // the template and the style sheet
	"errors"
	"fmt"
	"html/template"
	"math"
	"strconv"
	"strings"
)

// CSS is the style sheet of the charts.
//
//go:embed chart.css
var CSS template.CSS

//go:embed chart.html
var chartHTML string

var chartTemplate = template.Must(template.New("chart").Parse(chartHTML))

// size is the size of the drawing, to be stretched over its place. Text and the width of lines are
// not: they are HTML, and said not to scale.
const size = 1000

// smallest is the bottom of a logarithmic axis, as a share of its top.
const smallest = 1e-12

// Values are near a limit from this share of it on.
const near = 0.25

// drawing is a chart, drawn: what the template needs, in its units.
type drawing struct {
	Chart
	Label  string // for who can't see it
	Size   int
	Paths  []path
	Hits   []hit
	XTicks []tick
	YTicks []tick
	Spans  []span
	Lines  []tick // marks
	Levels []tick // limits
}

type path struct{ D, Class string }

// hit is the area of the mouse for an interval's figures.
type hit struct{ X, Width, Text string }

// tick is a place on an axis, in percent of it and in units of the drawing.
type tick struct {
	Percent, At, Text string
	Minor             bool // left out if there is little room
	Late              bool // its text goes to the left of it, or below
}

// span is a band, in percent and in units.
type span struct {
	Left, X, Width, Name string
	Last                 bool // its name goes to the right end
}

// letter is the width of a letter, as a share of a phone's.
const letter = 0.018

func (c Chart) draw() (template.HTML, error) {
	if err := c.check(); err != nil {
		return "", err
	}
	x := linear(c.Edges[0], c.Edges[len(c.Edges)-1], c.X)
	low, high := c.bounds()
	var y scale
	if c.Log {
		y = logarithmic(low, high)
	} else {
		y = linear(low, high, c.Y).round(c.Y)
	}
	d := drawing{Chart: c, Size: size, Label: c.label(low, high)}
	d.Paths = c.paths(x, y)
	d.Hits = c.hits(x)
	d.XTicks, d.YTicks = ticks(x, c.X), ticks(y, c.Y)
	for i, b := range c.Bands {
		from, to := x.at(b.From), x.at(b.To)
		s := span{Left: percent(from), X: units(from), Width: units(to - from), Name: b.Name}
		if to-from < letter*float64(len(b.Name)+1) {
			if s.Last = i == len(c.Bands)-1; !s.Last {
				s.Name = ""
			}
		}
		d.Spans = append(d.Spans, s)
	}
	for _, m := range c.Marks {
		if m.At >= x.min && m.At <= x.max {
			at := x.at(m.At)
			d.Lines = append(d.Lines, tick{Percent: percent(at), At: units(at), Text: m.Name, Late: at > 0.5})
		}
	}
	for _, l := range c.Limits {
		if l.At > y.min && l.At <= y.max {
			at := y.at(l.At)
			d.Levels = append(d.Levels, tick{Percent: percent(at), At: units(1 - at), Text: l.Name, Late: at > 0.5})
		}
	}
	var out strings.Builder
	if err := chartTemplate.Execute(&out, d); err != nil {
		return "", fmt.Errorf("drawing %q: %w", c.Title, err)
	}
	return template.HTML(out.String()), nil
}

func (c Chart) check() error {
	if len(c.Edges) < 2 {
		return fmt.Errorf("plot: %q has %d edges, must be at least 2", c.Title, len(c.Edges))
	}
	if c.X.Write == nil || c.Y.Write == nil {
		return fmt.Errorf("plot: %q has an axis without a unit", c.Title)
	}
	var errs []error
	for i := range c.Edges[1:] {
		if !(c.Edges[i] < c.Edges[i+1]) || missing(c.Edges[i]) || missing(c.Edges[i+1]) {
			errs = append(errs, fmt.Errorf("plot: %q has the edge %v before %v, must be ascending and at most %g", c.Title, c.Edges[i], c.Edges[i+1], largest))
		}
	}
	for i, s := range c.Series {
		if len(s.Values) != len(c.Edges)-1 {
			errs = append(errs, fmt.Errorf("plot: %q has %d values of %q, must be %d", c.Title, len(s.Values), s.Name, len(c.Edges)-1))
		}
		switch s.Color {
		case Blue, Orange, Red, Green, Grey, "":
		default:
			errs = append(errs, fmt.Errorf("plot: %q has the color %q, must be one of those exported", c.Title, s.Color))
		}
		if s.Shape == Range && i < 2 {
			errs = append(errs, fmt.Errorf("plot: %q has a range without two series before it", c.Title))
		}
	}
	return errors.Join(errs...)
}

// bounds returns the range of the Y axis.
func (c Chart) bounds() (low, high float64) {
	low, high = math.Inf(1), 0
	stack := make([]float64, len(c.Edges)-1)
	for _, s := range c.Series {
		for i, v := range s.Values {
			if missing(v) {
				continue
			}
			if s.Shape == Bars {
				stack[i] += max(v, 0)
				v = stack[i]
			}
			high = math.Max(high, v)
			if v > 0 {
				low = math.Min(low, v)
			}
		}
	}
	for _, l := range c.Limits {
		if high > l.At*near {
			high = math.Max(high, l.At)
		}
	}
	if high < 1/largest {
		high = 1
	}
	if !c.Log {
		return 0, high
	}
	return math.Max(math.Min(low, high), high*smallest), high
}

func ticks(s scale, u Unit) (ticks []tick) {
	for i, v := range s.ticks {
		at := s.at(v)
		ticks = append(ticks, tick{Percent: percent(at), At: units(1 - at), Text: u.Write(v), Minor: i%2 == 1})
	}
	return ticks
}

// label says in words what there is to see.
func (c Chart) label(low, high float64) string {
	var names []string
	for _, s := range c.Series {
		if s.Shape != Range {
			names = append(names, s.Name)
		}
	}
	return fmt.Sprintf("%s: %s, from %s to %s, between %s and %s", c.Title, strings.Join(names, ", "),
		c.X.Write(c.Edges[0]), c.X.Write(c.Edges[len(c.Edges)-1]), c.Y.Write(low), c.Y.Write(high))
}

// hits has the figures of each interval.
func (c Chart) hits(x scale) (hits []hit) {
	for i := range c.Edges[1:] {
		var text strings.Builder
		fmt.Fprintf(&text, "%s to %s", c.X.Write(c.Edges[i]), c.X.Write(c.Edges[i+1]))
		for _, b := range c.Bands {
			if middle := (c.Edges[i] + c.Edges[i+1]) / 2; b.From <= middle && middle < b.To {
				fmt.Fprintf(&text, ", %s", b.Name)
			}
		}
		for _, s := range c.Series {
			if s.Shape != Range && !missing(s.Values[i]) {
				fmt.Fprintf(&text, "\n%s: %s", s.Name, c.Y.Write(s.Values[i]))
			}
		}
		from, to := x.at(c.Edges[i]), x.at(c.Edges[i+1])
		hits = append(hits, hit{units(from), units(to - from), text.String()})
	}
	return hits
}

func percent(share float64) string { return strconv.FormatFloat(100*share, 'f', 3, 64) }
func units(share float64) string   { return strconv.FormatFloat(size*share, 'f', 1, 64) }
