package main

import (
	"bytes"
	"slices"
	"strings"

	"golang.org/x/perf/benchfmt"

	"github.com/heartwheel-go/heartwheel/internal/figures"
)

// results are the measurements, by benchmark, implementation, configuration and
// unit.
type results struct {
	cpu     string
	order   []string // names of benchmarks as they came
	benches map[string]*bench
}

// bench is one benchmark, such as Touch of package bench.
type bench struct {
	impls, configs, units []string
	values                map[cell][]float64
}

type cell struct{ impl, config, unit string }

func newResults() *results { return &results{benches: map[string]*bench{}} }

// read takes in what a test binary of the given package has printed.
func (r *results) read(pkg string, out []byte) error {
	in := benchfmt.NewReader(bytes.NewReader(out), pkg)
	for in.Scan() {
		switch rec := in.Result().(type) {
		case *benchfmt.SyntaxError:
			return rec
		case *benchfmt.Result:
			if cpu := rec.GetConfig("cpu"); cpu != "" {
				r.cpu = cpu
			}
			r.add(pkg, rec)
		}
	}
	return in.Err()
}

func (r *results) add(pkg string, rec *benchfmt.Result) {
	base, parts := rec.Name.Parts()
	name := pkg + "." + string(base)
	b := r.benches[name]
	if b == nil {
		b = &bench{values: map[cell][]float64{}}
		r.benches[name] = b
		r.order = append(r.order, name)
	}
	impl, config := "heartwheel", []string{}
	for _, p := range parts {
		s := strings.TrimPrefix(string(p), "/")
		if v, ok := strings.CutPrefix(s, "impl="); ok {
			impl = v
		} else if !strings.HasPrefix(s, "-") { // GOMAXPROCS
			config = append(config, s)
		}
	}
	for _, v := range rec.Values {
		value, unit := v.Value, v.Unit
		if v.OrigUnit != "" {
			value, unit = v.OrigValue, v.OrigUnit
		}
		if unit == "ns/op" && value == 0 {
			continue // one that measures something else
		}
		c := cell{impl, strings.Join(config, " "), unit}
		b.values[c] = append(b.values[c], value)
		b.impls, b.configs, b.units = add(b.impls, c.impl), add(b.configs, c.config), add(b.units, c.unit)
	}
}

func add(list []string, s string) []string {
	if slices.Contains(list, s) {
		return list
	}
	return append(list, s)
}

// median returns the median of a cell, and whether there is one.
func (b *bench) median(c cell) (float64, bool) {
	if b == nil {
		return 0, false
	}
	v := b.values[c]
	if len(v) == 0 {
		return 0, false
	}
	return figures.Median(v), true
}

// get returns the median of a cell of a benchmark of package bench.
func (r *results) get(name, impl, config, unit string) (float64, bool) {
	if !strings.Contains(name, ".") {
		name = "bench." + name
	}
	return r.benches[name].median(cell{impl, config, unit})
}
