package main

import (
	"fmt"
	"slices"
	"time"
)

// sample is what the server uses at a moment.
type sample struct {
	at    time.Duration // since the beginning
	bytes int64
	files int
}

// flat compares the first quarter of the run with the last.
func (d *director) flat() {
	first, last := quarter(d.samples, d.cfg.time, 0), quarter(d.samples, d.cfg.time, 3)
	if len(first) == 0 || len(last) == 0 {
		fmt.Fprintln(d.out, "memory and descriptors: the run was too short to compare its quarters")
		return
	}
	for _, of := range []struct {
		name  string
		value func(sample) float64
	}{
		{"memory, MiB", func(s sample) float64 { return float64(s.bytes) / (1 << 20) }},
		{"descriptors", func(s sample) float64 { return float64(s.files) }},
	} {
		before, after := median(first, of.value), median(last, of.value)
		growth := after/before - 1
		fmt.Fprintf(d.out, "%s: %.1f in the first quarter, %.1f in the last, %+.1f %%\n", of.name, before, after, 100*growth)
		if growth > d.cfg.flat {
			d.tally.fault("%s: grew by %.1f %%, and at most %.1f %% are allowed", of.name, 100*growth, 100*d.cfg.flat)
		}
	}
}

// quarter returns the samples of a quarter, from 0 to 3.
func quarter(samples []sample, whole time.Duration, n int) []sample {
	var of []sample
	for _, s := range samples {
		if q := int(4 * s.at / whole); q == n {
			of = append(of, s)
		}
	}
	return of
}

func median(samples []sample, value func(sample) float64) float64 {
	values := make([]float64, len(samples))
	for i, s := range samples {
		values[i] = value(s)
	}
	slices.Sort(values)
	return values[len(values)/2]
}
