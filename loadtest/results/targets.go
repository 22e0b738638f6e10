package main

import (
	"fmt"
	"slices"
	"strings"

	"github.com/heartwheel-go/heartwheel/internal/figures"
)

// target is a figure to be reached.
type target struct {
	what     string
	most     float64
	unit     string
	measured float64
}

// reasons say why a target is not met. docs/performance.md says more.
var reasons = []struct{ what, why string }{
	{"late p99", "From 100,000 connections on, the hand, the loops and the client wait for a processor (docs/performance.md)."},
	{"round trip p99", "The kernel's part of closing is most of the work of both ends, which share the processors with the probes."},
}

func writeTargets(b *strings.Builder, runs []rounds) {
	var rows strings.Builder
	var missed []string
	all, met := targets(runs), 0
	for _, t := range all {
		if t.measured <= t.most {
			met++
			continue
		}
		fmt.Fprintf(&rows, "| %s | %g%s | %.4g%s |\n", t.what, t.most, t.unit, t.measured, t.unit)
		for _, r := range reasons {
			if line := "- " + r.what + ": " + r.why; strings.Contains(t.what, r.what) && !slices.Contains(missed, line) {
				missed = append(missed, line)
			}
		}
	}
	fmt.Fprintf(b, "\n## Targets\n\nOf %d targets %d are met (`loadtest/results/targets.go`).\n", len(all), met)
	if met < len(all) {
		fmt.Fprintf(b, "\n| not met | at most | measured |\n|---|---:|---:|\n%s", rows.String())
	}
	if len(missed) > 0 {
		fmt.Fprintf(b, "\n%s\n", strings.Join(missed, "\n"))
	}
}

func targets(runs []rounds) (all []target) {
	atMost := func(what string, most float64, unit string, measured float64) {
		all = append(all, target{what, most, unit, measured})
	}
	for _, rs := range runs {
		s := rs[0].Run
		if s.Server != "heartwheel" {
			continue
		}
		name := figures.Thousands(s.Conns) + " connections"
		if !s.Reply {
			name += ", no replies"
		}
		if s.Storm {
			name += ", all silent at once"
			atMost(name+": closed after the deadline, the last", 2000, " ms", rs.largest(lateMax))
			if s.Probes > 0 {
				atMost(name+": round trip p99 of the live ones meanwhile", 50, " ms", rs.median(func(r report) float64 { return r.probes("closing").P99 }))
			}
		}
		atMost(name+": runs that have not passed", 0, "", float64(rs.sum(func(r report) int { return boolean(r.Verdict != "pass") })))
		atMost(name+": closed early, closed wrongly or lost", 0, "", float64(rs.sum(early)+rs.sum(wrong)+rs.sum(func(r report) int { return r.Silent.Unclosed })))
		if s.Storm {
			continue
		}
		atMost(name+": late p99", mostLate(s), " ms", rs.median(lateP99))
		if s.Conns >= 50_000 { // with fewer it is what the program has in any case: its threads' buffers and histograms
			atMost(name+": bytes per connection of the client", 200, " B", rs.median(func(r report) float64 { return r.Client.BytesPerConn }))
		}
		if bare := find(runs, s, "gnet"); bare != nil {
			// The guard, what gnet boxes it in, and its entry in the wheel are 185 bytes that live.
			atMost(name+": memory per connection more than bare gnet", 185, " B", rs.median(perConn)-bare.median(perConn))
		}
		if goroutines := find(runs, s, "net"); goroutines != nil {
			atMost(name+": memory per connection, of that with a goroutine each", 20, " %", 100*rs.median(perConn)/goroutines.median(perConn))
		}
	}
	return all
}

// mostLate is how late the p99 of the closes should be at most, in milliseconds: two ticks. Many servers
// on few processors wait for them.
func mostLate(s settings) float64 {
	switch {
	case s.Conns >= 500_000:
		return 500
	case s.TickMs > 0:
		return 2 * s.TickMs
	case s.Conns <= 10_000:
		return 20
	case s.Conns <= 100_000:
		return 30
	}
	return 200
}

// find returns the runs of another server with the same load.
func find(runs []rounds, s settings, server string) rounds {
	s.Server = server
	for _, rs := range runs {
		if rs[0].Run == s {
			return rs
		}
	}
	return nil
}
