package plot

import (
	"encoding/binary"
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"math"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

var nan = math.NaN()

func edges(n int) (edges []float64) {
	for i := range n + 1 {
		edges = append(edges, float64(i))
	}
	return edges
}

func draw(t *testing.T, c Chart) string {
	html, err := c.HTML()
	require.NoError(t, err)
	d := xml.NewDecoder(strings.NewReader(string(html)))
	for {
		_, err := d.Token()
		if errors.Is(err, io.EOF) {
			return string(html)
		}
		require.NoError(t, err, html)
	}
}

// drawn returns the paths of a class.
func drawn(html, class string) (d []string) {
	for _, m := range regexp.MustCompile(`<path class="`+class+`" d="([^"]*)"`).FindAllStringSubmatch(html, -1) {
		d = append(d, m[1])
	}
	return d
}

func TestLineGoesFromMiddleToMiddleAndStopsWhereNothingIs(t *testing.T) {
	c := Chart{Title: "x", X: Elapsed, Y: Number, Edges: edges(5), Series: []Series{
		{Name: "a", Color: Blue, Values: []float64{0, 10, nan, 5, nan}},
		{Name: "b", Color: Red, Dashed: true, AtEnd: true, Values: []float64{10, 10, 10, 10, 10}},
	}}
	html := draw(t, c)
	require.Equal(t, []string{"M100.0 1000.0L300.0 0.0"}, drawn(html, "line color-blue"))
	require.Equal(t, []string{"M700.0 500.0h0"}, drawn(html, "dots color-blue"))
	require.Equal(t, []string{"M200.0 0.0L400.0 0.0L600.0 0.0L800.0 0.0L1000.0 0.0"}, drawn(html, "line color-red dashed"))
}

func TestBarsStandOnEachOther(t *testing.T) {
	c := Chart{Title: "x", X: Elapsed, Y: Number, Edges: edges(2), Series: []Series{
		{Name: "a", Shape: Bars, Color: Blue, Values: []float64{4, nan}},
		{Name: "b", Shape: Bars, Color: Red, Values: []float64{6, 5}},
	}}
	html := draw(t, c)
	require.Equal(t, []string{"M0.0 1000.0V600.0H500.0V1000.0Z"}, drawn(html, "bars color-blue"))
	require.Equal(t, []string{"M0.0 600.0V0.0H500.0V600.0ZM500.0 1000.0V500.0H1000.0V1000.0Z"}, drawn(html, "bars color-red"))
}

func TestRangeIsBetweenTheTwoBefore(t *testing.T) {
	c := Chart{Title: "x", X: Elapsed, Y: Number, Edges: edges(3), Series: []Series{
		{Name: "low", Color: Blue, Values: []float64{2, 2, nan}},
		{Name: "high", Color: Red, Values: []float64{8, 10, 10}},
		{Shape: Range, Color: Blue, Values: make([]float64, 3)},
	}}
	html := draw(t, c)
	require.Equal(t, []string{"M166.7 200.0L500.0 0.0L500.0 800.0L166.7 800.0Z"}, drawn(html, "fill color-blue"))
	require.Equal(t, 2, strings.Count(html, "<li "), "it has no name")
}

func TestWhereTheMouseIsAreTheFigures(t *testing.T) {
	c := Chart{
		Title: "x", X: Elapsed, Y: Milliseconds, Edges: []float64{0, 0.25, 0.5},
		Bands:  []Band{{"ramp", 0, 0.3}, {"rest", 0.3, 0.5}},
		Series: []Series{{Name: "p50", Color: Blue, Values: []float64{0.25, nan}}, {Name: "max", Color: Red, Values: []float64{1500, 2}}},
	}
	html := draw(t, c)
	require.Contains(t, html, "<title>0 s to 0.25 s, ramp\np50: 250 µs\nmax: 1.5 s</title>")
	require.Contains(t, html, "<title>0.25 s to 0.5 s, rest\nmax: 2 ms</title>")
	require.Contains(t, html, `aria-label="x: p50, max, from 0 s to 0.5 s, between 0 ms and 1.5 s"`)
}

func TestLimitsAreDrawnWhereTheValuesComeNear(t *testing.T) {
	c := Chart{Title: "x", X: Elapsed, Y: Number, Edges: edges(1), Limits: []Limit{{"much", 100}, {"too much", 1000}}}
	for value, want := range map[float64][]string{20: nil, 30: {"much"}, 120: {"much"}, 300: {"much", "too much"}} {
		c.Series = []Series{{Name: "a", Values: []float64{value}}}
		html := draw(t, c)
		var names []string
		for _, m := range regexp.MustCompile(`level-name[^>]*>([^<]*)<`).FindAllStringSubmatch(html, -1) {
			names = append(names, m[1])
		}
		require.Equal(t, want, names, value)
	}
}

func TestNamesOfBandsThatAreTooNarrowAreLeftOut(t *testing.T) {
	c := Chart{Title: "x", X: Elapsed, Y: Number, Edges: []float64{0, 100}, Series: []Series{{Values: []float64{1}}}}
	c.Bands = []Band{{"ramp", 0, 8}, {"steady", 8, 97}, {"closing", 97, 100}}
	html := draw(t, c)
	require.NotContains(t, html, ">ramp<")
	require.Contains(t, html, `<span class="band-name" style="left: 8.000%">steady</span>`)
	require.Contains(t, html, `<span class="band-name last" style="left: 97.000%">closing</span>`, "beside which nothing is")
	require.Equal(t, 3, strings.Count(html, `class="band"`))
}

func TestChartsThatCanNotBeDrawn(t *testing.T) {
	for want, c := range map[string]Chart{
		`plot: "x" has 1 edges, must be at least 2`:                                  {Title: "x", X: Number, Y: Number, Edges: []float64{1}},
		`plot: "x" has an axis without a unit`:                                       {Title: "x", Edges: edges(1)},
		`plot: "x" has the edge 2 before 2, must be ascending and at most 1e+100`:    {Title: "x", X: Number, Y: Number, Edges: []float64{2, 2}},
		`plot: "x" has the edge NaN before 1, must be ascending and at most 1e+100`:  {Title: "x", X: Number, Y: Number, Edges: []float64{nan, 1}},
		`plot: "x" has the edge 1 before +Inf, must be ascending and at most 1e+100`: {Title: "x", X: Number, Y: Number, Edges: []float64{1, math.Inf(1)}},
		`plot: "x" has 1 values of "a", must be 2`:                                   {Title: "x", X: Number, Y: Number, Edges: edges(2), Series: []Series{{Name: "a", Values: []float64{1}}}},
		`plot: "x" has a range without two series before it`:                         {Title: "x", X: Number, Y: Number, Edges: edges(1), Series: []Series{{Shape: Range, Values: []float64{1}}}},
		`plot: "x" has the color "pink", must be one of those exported`:              {Title: "x", X: Number, Y: Number, Edges: edges(1), Series: []Series{{Color: "pink", Values: []float64{1}}}},
	} {
		_, err := c.HTML()
		require.EqualError(t, err, want)
	}
}

func TestEmpty(t *testing.T) {
	require.True(t, Chart{}.Empty())
	require.True(t, Chart{Series: []Series{{Values: []float64{0, nan}}}}.Empty())
	require.False(t, Chart{Series: []Series{{Values: []float64{nan, 1}}}}.Empty())
}

func TestTablesHaveAColumnForEachSeries(t *testing.T) {
	tables := Tables([]Chart{
		{Title: "A", X: Elapsed, Y: Number, Edges: edges(2), Series: []Series{{Name: "a", Values: []float64{1, nan}}}},
		{Title: "B", X: Number, Y: Number, Edges: edges(1), Series: []Series{{Name: "b", Values: []float64{1}}, {Shape: Range, Values: []float64{0}}}},
		{Title: "C", X: Elapsed, Y: Bytes, Edges: edges(2), Series: []Series{{Name: "c", Values: []float64{1e6, 2e6}}}},
	})
	require.Equal(t, []Table{
		{"A, C", []string{"from", "A, a", "C, c"}, [][]string{{"0 s", "1", "1 MB"}, {"1 s", "", "2 MB"}}},
		{"B", []string{"from", "B, b"}, [][]string{{"0", "1"}}},
	}, tables)
}

// Whatever the values are, a chart is well-formed and has no coordinate outside.
func FuzzChart(f *testing.F) {
	for _, v := range [][]float64{{1, 2}, {nan, math.Inf(1)}, {math.MaxFloat64, math.SmallestNonzeroFloat64}, {-1, 0}, {-1e300, 1e-300}} {
		var b []byte
		for _, v := range v {
			b = binary.LittleEndian.AppendUint64(b, math.Float64bits(v))
		}
		f.Add(b, true, 1.0, "x")
		f.Add(b, false, -1e9, "<&\x00\xff")
	}
	number := regexp.MustCompile(`-?[0-9.]+`)
	f.Fuzz(func(t *testing.T, b []byte, log bool, first float64, name string) {
		var values []float64
		for ; len(b) >= 8 && len(values) < 50; b = b[8:] {
			values = append(values, math.Float64frombits(binary.LittleEndian.Uint64(b)))
		}
		c := Chart{Title: name, Note: name, X: Elapsed, Y: Milliseconds, Log: log, Edges: edges(len(values))}
		for i := range c.Edges {
			c.Edges[i] += first
		}
		for i, shape := range []Shape{Line, Area, Range, Bars, Bars} {
			c.Series = append(c.Series, Series{Name: fmt.Sprint(i), Shape: shape, Color: Blue, Values: values, AtEnd: i == 1})
		}
		c.Marks, c.Limits, c.Bands = []Mark{{name, first}}, []Limit{{name, first}}, []Band{{name, first, first + 1}}
		html, err := c.HTML()
		if err != nil {
			require.ErrorContains(t, c.check(), "plot: ")
			return
		}
		require.NotContains(t, string(html), "ZgotmplZ")
		for _, d := range regexp.MustCompile(` d="([^"]*)"`).FindAllStringSubmatch(string(html), -1) {
			require.NotRegexp(t, "NaN|Inf", d[1])
			for _, n := range number.FindAllString(d[1], -1) {
				require.LessOrEqual(t, len(n), len("1000.0"))
				require.False(t, strings.HasPrefix(n, "-") && n != "-0.0", d[1])
			}
		}
		Tables([]Chart{c})
	})
}
