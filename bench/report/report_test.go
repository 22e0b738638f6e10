package main

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

const output = `goos: linux
cpu: Some Processor
BenchmarkTouch/impl=limit/conns=10/order=random-2      100  4.0 ns/op  0 B/op  0 allocs/op
BenchmarkTouch/impl=heartwheel/conns=10/order=random-2 100  2.0 ns/op  0 B/op  0 allocs/op
BenchmarkTouch/impl=heartwheel/conns=99/order=random-2 100  3.0 ns/op  0 B/op  0 allocs/op
BenchmarkMemory/impl=heartwheel-2 1  40.8 B/timer  1.0 objects/timer
PASS
`

func TestTables(t *testing.T) {
	r := newResults()
	require.NoError(t, r.read("bench", []byte(output)))
	require.NoError(t, r.read("bench", []byte(strings.ReplaceAll(output, "4.0 ns", "8.0 ns"))))
	require.NoError(t, r.read("bench", []byte(strings.ReplaceAll(output, "4.0 ns", "5.0 ns"))))
	v, ok := r.get("Touch", "limit", "conns=10 order=random", "ns/op")
	require.True(t, ok)
	require.InDelta(t, 5, v, 0, "the median")
	_, ok = r.get("Touch", "limit", "conns=99 order=random", "ns/op")
	require.False(t, ok)

	var b strings.Builder
	p := page{results: r, quick: true}
	b.WriteString(p.text())
	require.Contains(t, b.String(), "Some Processor")
	require.Contains(t, b.String(), `
| impl | conns=10 order=random | conns=99 order=random | allocs |
|---|---:|---:|---:|
| limit | 5.00 (2.50x) | | 0 |
| heartwheel | 2.00 | 3.00 | 0 |
`)
	require.Contains(t, b.String(), `
| impl | B/timer | objects/timer |
|---|---:|---:|
| heartwheel | 40.8 | 1.00 |
`)
}

func TestAUnitThatIsZeroInEachConfigurationHasNoColumn(t *testing.T) {
	r := newResults()
	require.NoError(t, r.read("bench", []byte(`BenchmarkAccuracy/impl=heartwheel/load=idle-2 1  0 early-%  7.0 late-ms  0 lost
BenchmarkAccuracy/impl=heartwheel/load=busy-2 1  1.0 early-%  8.0 late-ms  0 lost
`)))
	text := (&page{results: r, quick: true}).text()
	require.Contains(t, text, "load=idle:\n\n| impl | early-% | late-ms |\n|---|---:|---:|\n| heartwheel | 0 | 7.00 |\n")
	require.Contains(t, text, "| heartwheel | 1.00 | 8.00 |\n")
}

func TestTargetsThatWereNotMeasuredAreNotMet(t *testing.T) {
	r := newResults()
	require.NoError(t, r.read("bench", []byte(output)))
	all := r.targets()
	require.Greater(t, len(all), 30)
	for _, target := range all {
		if !target.missing {
			require.Contains(t, target.what, "objects per timer")
			require.True(t, target.met)
			continue
		}
		require.False(t, target.met, target.what)
	}
}

func TestEachBenchmarkHasAText(t *testing.T) {
	for _, j := range append(full.each, full.once...) {
		pkg := strings.ReplaceAll(strings.TrimPrefix(j.pkg, module+"/"), "/", "-")
		names := strings.Trim(strings.TrimPrefix(j.bench, "^Benchmark"), "()$")
		for _, name := range strings.Split(names, "|") {
			require.NotEmpty(t, about[pkg+"."+name], "%s.%s", pkg, name)
		}
	}
}
