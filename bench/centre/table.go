package main

import (
	"context"
	"fmt"
	"io"
	"log"
	"slices"
	"strings"
	"text/tabwriter"
)

// measurement is one figure of one subject.
type measurement struct {
	name    string // what is measured, with its unit
	subject string
	format  string                                     // of the figure
	measure func(ctx context.Context) (float64, error) // one round
	note    func() string                              // what else is to be said, after the last round
}

// noted returns a measurement with a note of its rounds.
func noted(name, subject, format string, of func(note *string) func(context.Context) (float64, error)) measurement {
	note := new(string)
	return measurement{name, subject, format, of(note), func() string { return *note }}
}

// table has the figures of all rounds.
type table struct {
	measurements []measurement
	figures      [][]float64
}

// measureAll makes each measurement as often as there are rounds, in turns.
func measureAll(ctx context.Context, all []measurement, rounds int) (*table, error) {
	t := new(table)
	for _, m := range all {
		if strings.Contains(m.name+" "+m.subject, *only) {
			t.measurements = append(t.measurements, m)
		}
	}
	t.figures = make([][]float64, len(t.measurements))
	for round := range rounds {
		for i, m := range t.measurements {
			figure, err := m.measure(ctx)
			if err != nil {
				return nil, fmt.Errorf("%s of %s: %w", m.name, m.subject, err)
			}
			log.Printf("round %d: %s, %s: "+m.format, round+1, m.name, m.subject, figure)
			t.figures[i] = append(t.figures[i], figure)
		}
	}
	return t, nil
}

// write writes the medians, and for each its ratio to the first subject of its name.
func (t *table) write(w io.Writer) error {
	tw := tabwriter.NewWriter(w, 0, 0, 1, ' ', 0)
	fmt.Fprintln(tw, "| what\t| who\t| median\t| ratio\t| least to most\t| besides\t|")
	fmt.Fprintln(tw, "|---\t|---\t|---:\t|---:\t|---\t|---\t|")
	var base float64
	for i, m := range t.measurements {
		figures := slices.Sorted(slices.Values(t.figures[i]))
		median := figures[len(figures)/2]
		ratio := ""
		if i > 0 && t.measurements[i-1].name == m.name {
			ratio = fmt.Sprintf("%.1f", median/base)
		} else {
			base = median
		}
		note := ""
		if m.note != nil {
			note = m.note()
		}
		f := strings.TrimPrefix(m.format, " ")
		fmt.Fprintf(tw, "| %s\t| %s\t| "+f+"\t| %s\t| "+f+" to "+f+"\t| %s\t|\n", m.name, m.subject, median, ratio, figures[0], figures[len(figures)-1], note)
	}
	return tw.Flush()
}
