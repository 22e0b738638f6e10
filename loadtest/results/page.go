package main

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/heartwheel-go/heartwheel/internal/figures"
)

// page returns the whole page.
func page(runs []rounds) string {
	var b strings.Builder
	m := runs[0][0].Machine
	fmt.Fprintf(&b, "# Results\n\n%s, %d cores, %s, Go %s, at most %d descriptors per process; both ends on it, over loopback. Written by `loadtest/results`: `make load`.\n",
		m.CPU, m.Cores, m.Kernel, m.Go, m.Files)
	writeRuns(&b, runs)
	writeCosts(&b, runs)
	writeStorms(&b, runs)
	b.WriteString(about)
	writeTargets(&b, runs)
	writeReasons(&b, runs)
	return b.String()
}

const about = `
## What the words mean

- heartwheel is ` + "`echo-heartbeat`" + `, gnet the same server without Heartwheel, which closes nobody, and net one with a goroutine, a buffered reader and a read deadline per connection.
- Late is from the deadline to the close as the client sees it. Early is a close before the deadline, wrong the close of a live connection, lost a silent one still open 2 s and two ticks later.
- Heartbeats due within a quantum of each other are sent together, so a close early by less than that goes unnoticed. Round trips are then those of 1,000 probes, that speak once a second from a thread of their own.
- A round trip counts from when a heartbeat was due.
- Bytes per connection are resident memory, less what the processes had without connections. Cores are processors kept busy while all are open; they differ by a fifth from run to run. Others are the cores used by everything else.
- A figure is the median of the rounds, late max that of all, and early, wrong and lost are counted in all of them.
`

func ms(v float64) string {
	switch {
	case v == 0:
		return "-"
	case v < 10:
		return strconv.FormatFloat(v, 'f', 2, 64)
	default:
		return strconv.FormatFloat(v, 'f', 0, 64)
	}
}

func (s settings) name() string {
	name := s.Server
	if !s.Reply {
		name += ", no replies"
	}
	return name
}

// settled are the round trips to show: the probes' if heartbeats were sent in quanta or had no answer.
func settled(r report) latency {
	if r.Run.QuantumMs > 0 || !r.Run.Reply {
		return r.probes("steady")
	}
	return r.Live.RTTMs
}

func writeRuns(b *strings.Builder, runs []rounds) {
	b.WriteString("\n## Heartbeats\n\n| connections | server | heartbeat, timeout, quantum | processes | connect/s | round trip p50, p99 ms | late p50, p99, max ms | early | wrong | lost | cores: server, client, others | rounds |\n|---:|---|---|---:|---:|---:|---:|---:|---:|---:|---:|---:|\n")
	for _, rs := range runs {
		s := rs[0].Run
		if s.Storm {
			continue
		}
		late := "-"
		if rs[0].Silent.Closed > 0 {
			late = fmt.Sprintf("%s, %s, %s", ms(rs.median(lateP50)), ms(rs.median(lateP99)), ms(rs.largest(lateMax)))
		}
		lost := "-"
		if s.Server != "gnet" {
			lost = strconv.Itoa(rs.sum(func(r report) int { return r.Silent.Unclosed }))
		}
		quantum := "none"
		if s.QuantumMs > 0 {
			quantum = fmt.Sprintf("%g ms", s.QuantumMs)
		}
		fmt.Fprintf(b, "| %s | %s | %g s, %g s, %s | %d | %s | %s, %s | %s | %d | %d | %s | %.2f, %.2f, %.2f | %d |\n",
			figures.Thousands(s.Conns), s.name(), s.IntervalS, s.TimeoutS, quantum, s.Procs,
			figures.Thousands(int(rs.median(func(r report) float64 { return r.ConnectPerSecond }))),
			ms(rs.median(func(r report) float64 { return settled(r).P50 })), ms(rs.median(func(r report) float64 { return settled(r).P99 })),
			late, rs.sum(early), rs.sum(wrong), lost,
			rs.median(cores), rs.median(func(r report) float64 { return r.Client.SteadyCores }), rs.median(others), len(rs))
	}
}

func lateP50(r report) float64 { return r.Silent.LateMs.P50 }
func lateP99(r report) float64 { return r.Silent.LateMs.P99 }
func lateMax(r report) float64 { return r.Silent.LateMs.Max }
func cores(r report) float64   { return r.Server.SteadyCores }
func others(r report) float64  { return r.Client.OtherCores }
func perConn(r report) float64 { return r.Server.BytesPerConn }
func early(r report) int       { return r.Silent.Early }
func wrong(r report) int       { return r.Live.WronglyClosed }

// writeCosts compares the memory of servers at the same load.
func writeCosts(b *strings.Builder, runs []rounds) {
	b.WriteString("\n## What it costs\n\n| connections | server | bytes per connection | the client's |\n|---:|---|---:|---:|\n")
	for _, rs := range runs {
		s := rs[0].Run
		if s.Storm {
			continue
		}
		fmt.Fprintf(b, "| %s | %s | %.0f | %.0f |\n", figures.Thousands(s.Conns), s.name(),
			rs.median(perConn), rs.median(func(r report) float64 { return r.Client.BytesPerConn }))
	}
}

func writeStorms(b *strings.Builder, runs []rounds) {
	head := "\n## All fall silent in the same second\n\nWithin one second all but the probes send their last heartbeat. Round trips are from the first deadline on.\n\n| connections | from the first close to the last, s | late p50, p99, max ms | early | lost | probes: round trip p50, p99, max ms | probes lost | rounds |\n|---:|---:|---:|---:|---:|---:|---:|---:|\n"
	for _, rs := range runs {
		s := rs[0].Run
		if !s.Storm {
			continue
		}
		b.WriteString(head)
		head = ""
		closing := func(figure func(latency) float64) float64 {
			return rs.median(func(r report) float64 { return figure(r.probes("closing")) })
		}
		fmt.Fprintf(b, "| %s | %.2f | %s, %s, %s | %d | %d | %s, %s, %s | %d | %d |\n",
			figures.Thousands(s.Conns), rs.median(func(r report) float64 { return r.Silent.FirstToLastS }),
			ms(rs.median(lateP50)), ms(rs.median(lateP99)), ms(rs.largest(lateMax)), rs.sum(early),
			rs.sum(func(r report) int { return r.Silent.Unclosed }),
			ms(closing(func(l latency) float64 { return l.P50 })), ms(closing(func(l latency) float64 { return l.P99 })),
			ms(rs.largest(func(r report) float64 { return r.probes("closing").Max })), rs.sum(wrong), len(rs))
	}
}

// writeReasons says when the runs were, and lists those that failed, with their reasons.
func writeReasons(b *strings.Builder, runs []rounds) {
	var dates []string
	for _, rs := range runs {
		for _, r := range rs {
			dates = append(dates, r.Date)
		}
	}
	fmt.Fprintf(b, "\n## Runs\n\nFrom %s to %s, with the commands of `scripts/load`. All have passed, unless a line says otherwise.\n",
		slices.Min(dates), slices.Max(dates))
	for _, rs := range runs {
		failed := rs.sum(func(r report) int { return boolean(r.Verdict != "pass") })
		if failed == 0 {
			continue
		}
		fmt.Fprintf(b, "\n- `%s`, %d of %d passed\n", rs[0].Command, len(rs)-failed, len(rs))
		for _, r := range rs {
			for _, reason := range r.Reasons {
				fmt.Fprintf(b, "    - %s\n", reason)
			}
		}
	}
}
