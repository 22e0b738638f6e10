package plot

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"
)

// paths draws the series.
func (c Chart) paths(x, y scale) (paths []path) {
	var dots []path
	stack := make([]float64, len(c.Edges)-1)
	for i, s := range c.Series {
		class := s.Color.class()
		line := "line " + class
		if s.Dashed {
			line += " dashed"
		}
		switch s.Shape {
		case Line:
			d, alone := c.line(s, x, y)
			paths, dots = append(paths, path{d, line}), append(dots, path{alone, "dots " + class})
		case Area:
			d, alone := c.line(s, x, y)
			paths = append(paths, path{c.between(s, nil, x, y), "fill " + class}, path{d, line})
			dots = append(dots, path{alone, "dots " + class})
		case Bars:
			paths = append(paths, path{c.bars(s, stack, x, y), "bars " + class})
		case Range:
			paths = append(paths, path{c.between(c.Series[i-1], c.Series[i-2].Values, x, y), "fill " + class})
		}
	}
	slices.Reverse(dots) // in the same place the first series counts
	return append(paths, dots...)
}

// Class returns the class of a series.
func (s Series) Class() string { return s.Color.class() }

func (c Color) class() string { return "color-" + string(cmp.Or(c, Blue)) }

// place returns the place of an interval's value in the drawing.
func (c Chart) place(s Series, i int, x scale) string {
	if s.AtEnd {
		return units(x.at(c.Edges[i+1]))
	}
	return units((x.at(c.Edges[i]) + x.at(c.Edges[i+1])) / 2)
}

func height(v float64, y scale) string { return units(1 - y.at(v)) }

// line connects neighbouring values. A value without a neighbour is a dot.
func (c Chart) line(s Series, x, y scale) (line, dots string) {
	var d, alone strings.Builder
	eachRun(s.Values, func(first, next int) {
		if next == first+1 {
			fmt.Fprintf(&alone, "M%s %sh0", c.place(s, first, x), height(s.Values[first], y))
			return
		}
		command := "M"
		for i := first; i < next; i++ {
			fmt.Fprintf(&d, "%s%s %s", command, c.place(s, i, x), height(s.Values[i], y))
			command = "L"
		}
	})
	return d.String(), alone.String()
}

// between is what is below a line, or between it and another.
func (c Chart) between(s Series, lower []float64, x, y scale) string {
	values := s.Values
	if lower != nil {
		values = make([]float64, len(s.Values))
		for i := range values {
			values[i] = s.Values[i]
			if missing(lower[i]) {
				values[i] = math.NaN()
			}
		}
	}
	var d strings.Builder
	eachRun(values, func(first, next int) {
		command := "M"
		for i := first; i < next; i++ {
			fmt.Fprintf(&d, "%s%s %s", command, c.place(s, i, x), height(values[i], y))
			command = "L"
		}
		for i := next - 1; i >= first; i-- {
			bottom := units(1)
			if lower != nil {
				bottom = height(lower[i], y)
			}
			fmt.Fprintf(&d, "L%s %s", c.place(s, i, x), bottom)
		}
		d.WriteString("Z")
	})
	return d.String()
}

// bars stand on those before.
func (c Chart) bars(s Series, stack []float64, x, y scale) string {
	var d strings.Builder
	for i, v := range s.Values {
		if missing(v) || v <= 0 {
			continue
		}
		left, right := units(x.at(c.Edges[i])), units(x.at(c.Edges[i+1]))
		fmt.Fprintf(&d, "M%s %sV%sH%sV%sZ", left, height(stack[i], y), height(stack[i]+v, y), right, height(stack[i], y))
		stack[i] += v
	}
	return d.String()
}

// eachRun calls f for each run of values without a gap.
func eachRun(values []float64, f func(first, next int)) {
	first := -1
	for i, v := range values {
		if first >= 0 && missing(v) {
			f(first, i)
			first = -1
		}
		if first < 0 && !missing(v) {
			first = i
		}
	}
	if first >= 0 {
		f(first, len(values))
	}
}
