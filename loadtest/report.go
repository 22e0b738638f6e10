package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"text/tabwriter"
	"time"

	"github.com/heartwheel-go/heartwheel/loadtest/fleet"
	"github.com/heartwheel-go/heartwheel/loadtest/internal/latency"
)

const (
	pass = "pass"
	fail = "fail"

	aborted = "aborted" // neither: not at the end
)

// report is what a run has found. Its JSON form is for other programs.
type report struct {
	Date    string      `json:"date"`
	Command string      `json:"command"`
	Machine machine     `json:"machine"`
	Run     runSettings `json:"run"`
	Conns   struct {
		Requested   int `json:"requested"`
		Established int `json:"established"`
		Failed      int `json:"failed"`
	} `json:"conns"`
	Silent struct {
		Count        int             `json:"count"`
		Closed       int             `json:"closed"`
		Early        int             `json:"early"`
		Unclosed     int             `json:"unclosed"`
		LateMs       latency.Summary `json:"late_ms"` // after the timeout
		FirstToLastS float64         `json:"first_to_last_s"`
	} `json:"silent"`
	Live struct {
		Count         int             `json:"count"`
		WronglyClosed int             `json:"wrongly_closed"`
		Heartbeats    int64           `json:"heartbeats"`
		RTTMs         latency.Summary `json:"rtt_ms"` // from when a heartbeat was due to its answer, since all are open
	} `json:"live"`
	Phases           []phaseReport `json:"phases"`
	Fleet            *fleet.Report `json:"fleet,omitempty"`
	Server           *serverReport `json:"server"` // null for a server that is not our own
	Client           clientReport  `json:"client"`
	ConnectPerSecond float64       `json:"connect_per_second"`
	Verdict          string        `json:"verdict"`
	Reasons          []string      `json:"reasons"`

	result *result
}

// runSettings says what was run, as it was after defaults.
type runSettings struct {
	Server    string  `json:"server"` // heartwheel, a baseline, or an address
	Procs     int     `json:"procs"`
	Workers   int     `json:"workers"`
	IntervalS float64 `json:"interval_s"`
	TimeoutS  float64 `json:"timeout_s"`
	TickMs    float64 `json:"tick_ms"`
	QuantumMs float64 `json:"quantum_ms"`
	Reply     bool    `json:"reply"`
	Probes    int     `json:"probes"`
	Storm     bool    `json:"storm"`
}

// phaseReport is a part of the run: how long the answers took, and for the probes
// apart.
type phaseReport struct {
	Phase    string          `json:"phase"`
	RTTMs    latency.Summary `json:"rtt_ms"`
	ProbesMs latency.Summary `json:"probes_ms"`
}

// serverReport is what servers of our own have used: all of them together.
type serverReport struct {
	Processes    int     `json:"processes"`
	RSSBytes     int64   `json:"rss_bytes"`        // at the peak of each
	SteadyRSS    int64   `json:"steady_rss_bytes"` // with all connections
	BytesPerConn float64 `json:"bytes_per_conn"`   // that, less what they had without any
	SteadyCores  float64 `json:"steady_cores"`     // processors kept busy while nobody is closed
	CPUSeconds   float64 `json:"cpu_seconds"`      // until their end
}

// clientReport is what this program has used.
type clientReport struct {
	RSSBytes     int64           `json:"rss_bytes"`
	BytesPerConn float64         `json:"bytes_per_conn"`
	SteadyCores  float64         `json:"steady_cores"`
	LagMs        latency.Summary `json:"lag_ms"` // from when a heartbeat was due until it was sent
	OtherCores   float64         `json:"other_cores"`
}

// newReport judges a whole run.
func newReport(cfg config, p plan, res *result, m *meter) *report {
	r := &report{
		Date:    time.Now().Format(time.DateOnly),
		Command: "go run ./loadtest" + cfg.given,
		Machine: thisMachine(p.limit),
		Run:     cfg.settings(p),
		Verdict: pass,
		Reasons: []string{},
		result:  res,
	}
	r.Conns.Requested, r.Conns.Established, r.Conns.Failed = cfg.conns+cfg.probes, res.established, res.failed
	r.Silent.Count, r.Silent.Closed, r.Silent.Early, r.Silent.Unclosed = res.silent, res.closed, res.early, res.unclosed
	r.Silent.LateMs = res.late.Summary()
	r.Silent.FirstToLastS = (res.lastClose - res.firstClose).Seconds()
	r.Live.Count, r.Live.WronglyClosed, r.Live.Heartbeats = res.live, res.wronglyClosed+res.starved, res.heartbeats
	r.Live.RTTMs = res.sinceOpen().Summary()
	for i, name := range cfg.phaseNames() {
		r.Phases = append(r.Phases, phaseReport{name, res.rtt[i].Summary(), res.probing[i].Summary()})
	}
	r.ConnectPerSecond = float64(res.established) / res.ramp.Seconds()

	servers, self, others := m.cores()
	total := float64(max(res.established, 1))
	r.Client = clientReport{
		RSSBytes:     m.selfRSS,
		BytesPerConn: float64(m.selfRSS-m.selfIdleRSS) / total,
		SteadyCores:  self,
		LagMs:        res.lag.Summary(),
		OtherCores:   others,
	}
	if p.procs > 0 {
		r.Server = &serverReport{Processes: p.procs, SteadyRSS: m.rss, BytesPerConn: float64(m.rss-m.idleRSS) / total, SteadyCores: servers}
	}
	r.judge(cfg, res)
	if r.Fleet = res.fleet; r.Fleet != nil {
		r.judgeFleet()
	}
	return r
}

func (cfg config) settings(p plan) runSettings {
	s := runSettings{
		Server:    "heartwheel",
		Procs:     p.procs,
		Workers:   p.workers,
		IntervalS: cfg.interval.Seconds(),
		TimeoutS:  cfg.timeout.Seconds(),
		TickMs:    cfg.tick.Seconds() * 1000,
		QuantumMs: cfg.quantum.Seconds() * 1000,
		Reply:     cfg.reply,
		Probes:    cfg.probes,
		Storm:     cfg.storm,
	}
	switch {
	case cfg.fleet.Nodes > 0:
		s.Server = "fleet"
	case cfg.addr != "":
		s.Server = cfg.addr
	case cfg.baseline != "":
		s.Server = cfg.baseline
	}
	return s
}

// judge says why the run has not passed, if it has not.
func (r *report) judge(cfg config, res *result) {
	if res.failed > 0 {
		r.fail("%d of %d connections failed, the first with: %v", res.failed, r.Conns.Requested, res.firstFailure)
	}
	if res.early > 0 {
		r.fail("%d silent connections were closed before the timeout of %v", res.early, cfg.timeout)
	}
	if res.unclosed > 0 {
		r.fail("%d of %d silent connections were not closed within %v after their timeout", res.unclosed, res.silent, cfg.margin())
	}
	if res.tardy > 0 {
		r.fail("%d of %d silent connections were closed more than %v after their timeout", res.tardy, res.silent, cfg.margin())
	}
	if res.wronglyClosed > 0 {
		r.fail("%d live connections were closed", res.wronglyClosed)
	}
	if res.starved > 0 {
		r.fail("%d live connections were closed because this program sent their heartbeats too late: the machine is overloaded", res.starved)
	}
	if res.unsent > 0 {
		r.fail("%d heartbeats could not be sent", res.unsent)
	}
	if res.unanswered > 0 {
		r.fail("%d heartbeats had no answer for more than %v", res.unanswered, cfg.margin())
	}
	if res.stray > 0 {
		r.fail("%d answers that nobody expects", res.stray)
	}
}

// judgeFleet says why the fleet has not passed, if it has not.
func (r *report) judgeFleet() {
	if died := r.Fleet.Died(); len(died) > 0 {
		r.Verdict, r.Reasons = fail, slices.Concat(died, r.Reasons) // the cause first
	}
	for _, reason := range r.Fleet.Faults() {
		r.fail("%s", reason)
	}
}

// fail adds a reason why the run has not passed.
func (r *report) fail(format string, args ...any) {
	r.Verdict = fail
	r.Reasons = append(r.Reasons, fmt.Sprintf(format, args...))
}

// abort says that the run has ended too early, and why.
func (r *report) abort(err error) {
	r.Verdict = aborted
	r.Reasons = slices.Insert(r.Reasons, 0, fmt.Sprintf("after %v: %v", r.result.end.Round(time.Millisecond), err))
}

// write writes the wanted files.
func (r *report) write(cfg config) error {
	var errs []error
	if cfg.json != "" {
		errs = append(errs, r.writeJSON(cfg.json))
	}
	if cfg.html != "" {
		errs = append(errs, r.writeHTML(cfg.html, cfg))
	}
	return errors.Join(errs...)
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
		row("  late\tp50 %.1f ms\tp99 %.1f ms\tmax %.1f ms\tfirst to last %.2f s", r.Silent.LateMs.P50, r.Silent.LateMs.P99, r.Silent.LateMs.Max, r.Silent.FirstToLastS)
	}
	row("live\tcount %d\twrongly closed %d\theartbeats %d\t", r.Live.Count, r.Live.WronglyClosed, r.Live.Heartbeats)
	latencyRow := func(name string, l latency.Summary) {
		if l != (latency.Summary{}) {
			row("  %s\tp50 %.2f ms\tp99 %.2f ms\tmax %.2f ms\t", name, l.P50, l.P99, l.Max)
		}
	}
	latencyRow("round trip", r.Live.RTTMs)
	for _, p := range r.Phases {
		latencyRow("probes, "+p.Phase, p.ProbesMs)
	}
	if r.Fleet != nil {
		r.Fleet.Rows(row)
	}
	if s := r.Server; s != nil {
		row("server\t%d processes\tpeak RSS %.1f MB\tCPU %.2f s\t", s.Processes, float64(s.RSSBytes)/1e6, s.CPUSeconds)
		row("  steady\t%.3f cores\t%.0f bytes per connection\t\t", s.SteadyCores, s.BytesPerConn)
	}
	row("this program\t%.3f cores\t%.0f bytes per connection\tsent late p99 %.2f ms\tothers %.2f cores", r.Client.SteadyCores, r.Client.BytesPerConn, r.Client.LagMs.P99, r.Client.OtherCores)
	_ = w.Flush()
	for _, reason := range r.Reasons {
		fmt.Fprintf(out, "reason: %s\n", reason)
	}
	fmt.Fprintf(out, "verdict %s\n", r.Verdict)
}
