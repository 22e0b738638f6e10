package main

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"text/tabwriter"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"
)

const (
	pass = "pass"
	fail = "fail"
)

// report is what a run has found. Its JSON form is for other programs.
type report struct {
	Conns struct {
		Requested   int `json:"requested"`
		Established int `json:"established"`
		Failed      int `json:"failed"`
	} `json:"conns"`
	Silent struct {
		Count    int     `json:"count"`
		Closed   int     `json:"closed"`
		Early    int     `json:"early"`
		Unclosed int     `json:"unclosed"`
		LateMs   latency `json:"late_ms"` // after the timeout
	} `json:"silent"`
	Live struct {
		Count         int     `json:"count"`
		WronglyClosed int     `json:"wrongly_closed"`
		Heartbeats    int64   `json:"heartbeats"`
		RTTMs         latency `json:"rtt_ms"` // from when a heartbeat was due to its answer
	} `json:"live"`
	Server           *serverReport `json:"server"` // null for a server that is not our own
	ConnectPerSecond float64       `json:"connect_per_second"`
	Verdict          string        `json:"verdict"`
	Reasons          []string      `json:"reasons"`
}

// serverReport is what a server of our own has used, until its end.
type serverReport struct {
	RSSBytes   int64   `json:"rss_bytes"` // at its peak
	CPUSeconds float64 `json:"cpu_seconds"`
}

// latency is a distribution in milliseconds.
type latency struct {
	P50 float64 `json:"p50"`
	P99 float64 `json:"p99"`
	Max float64 `json:"max"`
}

// histograms hold microseconds, up to ten minutes.
func newHistogram() *hdrhistogram.Histogram {
	return hdrhistogram.New(1, (10 * time.Minute).Microseconds(), 3)
}

func record(h *hdrhistogram.Histogram, d time.Duration) {
	_ = h.RecordValue(min(max(d.Microseconds(), 1), h.HighestTrackableValue()))
}

func latencyOf(h *hdrhistogram.Histogram) latency {
	const usPerMs = 1000.0
	return latency{
		P50: float64(h.ValueAtQuantile(50)) / usPerMs,
		P99: float64(h.ValueAtQuantile(99)) / usPerMs,
		Max: float64(h.Max()) / usPerMs,
	}
}

// fail adds a reason why the run has not passed.
func (r *report) fail(format string, args ...any) {
	r.Verdict = fail
	r.Reasons = append(r.Reasons, fmt.Sprintf(format, args...))
}

func (r *report) writeJSON(file string) error {
	b, err := json.MarshalIndent(r, "", "  ")
	if err != nil {
		return fmt.Errorf("writing the report: %w", err)
	}
	if err := os.WriteFile(file, append(b, '\n'), 0o644); err != nil {
		return fmt.Errorf("writing the report: %w", err)
	}
	return nil
}

func (r *report) writeTable(out io.Writer) {
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	row := func(format string, args ...any) { fmt.Fprintf(w, format+"\n", args...) }
	row("connections\trequested %d\testablished %d\tfailed %d\t%.0f/s", r.Conns.Requested, r.Conns.Established, r.Conns.Failed, r.ConnectPerSecond)
	row("silent\tcount %d\tclosed %d\tearly %d\tunclosed %d", r.Silent.Count, r.Silent.Closed, r.Silent.Early, r.Silent.Unclosed)
	if r.Silent.Closed > 0 {
		row("  late\tp50 %.1f ms\tp99 %.1f ms\tmax %.1f ms\t", r.Silent.LateMs.P50, r.Silent.LateMs.P99, r.Silent.LateMs.Max)
	}
	row("live\tcount %d\twrongly closed %d\theartbeats %d\t", r.Live.Count, r.Live.WronglyClosed, r.Live.Heartbeats)
	if r.Live.Heartbeats > 0 {
		row("  round trip\tp50 %.2f ms\tp99 %.2f ms\tmax %.2f ms\t", r.Live.RTTMs.P50, r.Live.RTTMs.P99, r.Live.RTTMs.Max)
	}
	if r.Server != nil {
		row("server\tpeak RSS %.1f MB\tCPU %.2f s\t\t", float64(r.Server.RSSBytes)/1e6, r.Server.CPUSeconds)
	}
	_ = w.Flush()
	for _, reason := range r.Reasons {
		fmt.Fprintf(out, "reason: %s\n", reason)
	}
	fmt.Fprintf(out, "verdict %s\n", r.Verdict)
}
