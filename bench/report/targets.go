package main

import (
	"fmt"
	"math"
	"strings"
)

// target is a figure to be reached, and what came of it.
type target struct {
	what     string
	limit    string
	measured float64
	unit     string
	met      bool
	missing  bool
}

// reasons say why some targets are not met. docs/performance.md says more.
var reasons = map[string]string{
	"two goroutines beside one":               "Other work on the machine slows two goroutines, not one.",
	"keepalive.Touch of a gnet.Conn":          "Two assertions to interfaces, 1.5 ns each, on the way from a gnet.Conn to its guard.",
	"a million due at once":                   "Each timer takes the lock twice, so that a touch in between saves it.",
	"time added to a garbage collection":      "Both differ by half from run to run.",
	"processor time at a million connections": "Mostly cold memory, for all.",
	"... beside time.Timer.Reset":             "Mostly cold memory, for all.",
}

// distances writes how far a touch is from what nobody can beat.
func (p *page) distances(b *strings.Builder) {
	fmt.Fprint(b, "\n## Beside the limit\n\nThe limit is one atomic load and one blind store, which can't tell whether a timer was still pending. With a million connections both wait for memory: a processor fetches ahead for a store, and not for a load before a compare-and-swap.\n\n| a touch | 10,000 connections | 100,000 | 1,000,000 |\n|---|---:|---:|---:|\n")
	for _, row := range []struct{ what, bench string }{{"again in the same tick", "Touch"}, {"in a new tick", "TouchNewTick"}} {
		fmt.Fprintf(b, "| %s |", row.what)
		for _, conns := range []string{"10000", "100000", "1000000"} {
			ours, _ := p.results.get(row.bench, "heartwheel", "conns="+conns+" order=random", "ns/op")
			limit, ok := p.results.get(row.bench, "limit", "conns="+conns+" order=random", "ns/op")
			if ok {
				fmt.Fprintf(b, " %sx", figure(ours/limit))
			}
			fmt.Fprint(b, " |")
		}
		fmt.Fprintln(b)
	}
}

// targets writes how many targets are met, and which are not.
func (p *page) targets(b *strings.Builder) {
	all, met := p.results.targets(), 0
	var rows strings.Builder
	for _, t := range all {
		if t.met {
			met++
			continue
		}
		measured, why := figure(t.measured)+t.unit, ""
		if t.missing {
			measured = "not measured"
		}
		for what, reason := range reasons {
			if strings.HasPrefix(t.what, what) {
				why = reason
			}
		}
		fmt.Fprintf(&rows, "| %s | %s | %s | %s |\n", t.what, t.limit, measured, why)
	}
	fmt.Fprintf(b, "\n## Targets\n\nOf %d targets %d are met (`bench/report/targets.go`).\n", len(all), met)
	if met < len(all) {
		fmt.Fprintf(b, "\n| not met | target | measured | |\n|---|---|---:|---|\n%s", rows.String())
	}
}

func (r *results) targets() []target {
	const ns = "ns/op"
	var all []target
	missing := false
	get := func(name, impl, config, unit string) float64 {
		v, ok := r.get(name, impl, config, unit)
		if !ok {
			missing = true
			return math.NaN()
		}
		return v
	}
	atMost := func(what string, limit float64, unit string, measured float64) {
		all = append(all, target{what, "at most " + figure(limit) + unit, measured, unit, measured <= limit, missing})
		missing = false
	}
	atLeast := func(what string, limit float64, unit string, measured float64) {
		all = append(all, target{what, "at least " + figure(limit) + unit, measured, unit, measured >= limit, missing})
		missing = false
	}
	// best returns the smallest of the peers' figures; baselines are none.
	best := func(name, config, unit string, peers ...string) float64 {
		least := math.Inf(1)
		for _, peer := range peers {
			if v, ok := r.get(name, peer, config, unit); ok {
				least = min(least, v)
			}
		}
		return least
	}
	touch := func(impl, conns string) float64 { return get("Touch", impl, "conns="+conns+" order=random", ns) }

	atLeast("touch beside go-zero's MoveTimer", 100, "x", get("Move", "go-zero", "conns=10000 order=random", ns)/touch("heartwheel", "10000"))
	atLeast("touch beside time.Timer.Reset", 7, "x", touch("time.Timer", "10000")/touch("heartwheel", "10000"))
	atLeast("touch beside SetReadDeadline", 25, "x", touch("SetReadDeadline", "9000")/touch("heartwheel", "10000"))
	atMost("allocations of a touch", 0, "", get("Touch", "heartwheel", "conns=10000 order=random", "allocs/op"))
	atLeast("two goroutines beside one", 1.8, "x", touch("heartwheel", "10000")/get("TouchParallel", "heartwheel", "conns=10000 order=random", ns))
	kl := get("keepalive.Touch", "limit", "", ns)
	atMost("keepalive.Touch of a net.Conn beside the limit", 3, "x", get("keepalive.Touch", "net", "", ns)/kl)
	atMost("keepalive.Touch of a gnet.Conn beside the limit", 3, "x", get("keepalive-gnetkeepalive.Touch", "heartwheel", "", ns)/kl)
	move := func(impl, conns string) float64 { return get("Move", impl, "conns="+conns+" order=random", ns) }
	for i, conns := range []string{"10000", "100000", "1000000"} {
		atLeast("MoveTimer among "+conns+" keys beside go-zero's", []float64{25, 12, 6}[i], "x", move("go-zero", conns)/move("heartwheel-keyed", conns))
	}
	atLeast("two goroutines that move keys beside one", 1.7, "x", move("heartwheel-keyed", "10000")/get("TouchParallel", "heartwheel-keyed", "conns=10000 order=random", ns))
	atLeast("SetTimer beside go-zero's", 8, "x", get("Set", "go-zero", "conns=10000", ns)/get("Set", "heartwheel-keyed", "conns=10000", ns))
	atMost("add and remove beside the best peer", 1, "x", get("Churn", "heartwheel", "conns=100000", ns)/
		best("Churn", "conns=100000", ns, "time.Timer", "russellluo", "antlabs", "rfyiamcool", "go-zero"))

	const million = "conns=1000000"
	const value = 8
	// 40 bytes of the timer, 8 of its entry, and the headers of the chunks of entries, 40 bytes for 59.
	atMost("heap per timer beyond the value", 49, " B", get("Memory", "heartwheel", million, "B/timer")-value)
	atMost("heap per key beyond a timer with a handle", 80, " B", get("Memory", "heartwheel-keyed", million, "B/timer")-get("Memory", "heartwheel", million, "B/timer"))
	atMost("objects per timer", 1.02, "", get("Memory", "heartwheel", million, "objects/timer"))
	atMost("time added to a garbage collection beside the best peer", 0.5, "x", get("Memory", "heartwheel", million, "GC-ms")/
		best("Memory", million, "GC-ms", "time.Timer", "stdlazy", "russellluo", "antlabs", "rfyiamcool", "go-zero"))
	cpu := func(impl string) float64 {
		return get("CPU", impl, million, "CPU-ms/s") - get("CPU", "none", million, "CPU-ms/s")
	}
	atLeast("processor time at a million connections beside go-zero", 12, "x", cpu("go-zero")/cpu("heartwheel"))
	atLeast("... beside time.Timer.Reset", 4, "x", cpu("time.Timer")/cpu("heartwheel"))
	atLeast("... beside std lazy", 3, "x", cpu("stdlazy")/cpu("heartwheel"))
	atLeast("3 s with all processors busy", 3, " s", get("Drift", "heartwheel", "tick=10ms delay=3s", "fired-after-s"))
	atMost("3 s with all processors busy", 3.05, " s", get("Drift", "heartwheel", "tick=10ms delay=3s", "fired-after-s"))
	atMost("a tick with nothing due, a million timers", 1000, " ns", get("wheel.Tick", "heartwheel", "idle conns=1000000", ns))
	atMost("filing again, random order", 60, " ns", get("wheel.Tick", "heartwheel", "refile order=random conns=1000000", ns))
	atMost("filing again, order of age", 15, " ns", get("wheel.Tick", "heartwheel", "refile order=age conns=1000000", ns))
	atMost("a tick among 7-day deadlines beside one without, levels", 2, "x",
		get("wheel.Tick", "heartwheel", "long levels=512,64,64 conns=1000000", ns)/get("wheel.Tick", "heartwheel", "long levels=512,64,64 conns=500000", ns))
	atMost("a million due at once: from the first to the last", 200, " ms", get("MassExpiry", "heartwheel", million, "first-to-last-ms"))
	atMost("... and the deadline after it is late by", 200, " ms", get("MassExpiry", "heartwheel", million, "probe-late-ms"))
	atMost("echo on gnet, 4000 connections, processor time beside bare gnet", 1.02, "x", get("EchoGnet", "heartwheel", "pipeline=1", "CPU-x-bare"))
	atMost("... touched for each message", 1.02, "x", get("EchoGnet", "heartwheel-manual", "pipeline=1", "CPU-x-bare"))
	for _, config := range []string{"tick=100ms load=idle", "tick=10ms load=idle", "tick=10ms load=busy"} {
		atMost("fired early, "+config, 0, " %", get("Accuracy", "heartwheel", config, "early-%"))
	}
	for _, config := range []string{"pipeline=1", "pipeline=16"} {
		atMost("echo on k.Listener beside bare, "+config, 1.02, "x", get("Echo", "heartwheel", config, "time-x-bare"))
		atMost("... processor time, "+config, 1.02, "x", get("Echo", "heartwheel", config, "CPU-x-bare"))
	}
	atMost("live ones expired after a stop of 2 s", 0, "", get("Stop", "heartwheel", "", "live-expired"))
	return all
}
