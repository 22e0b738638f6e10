package main

import (
	"fmt"
	"strconv"
	"time"

	"github.com/heartwheel-go/heartwheel/internal/figures"
	"github.com/heartwheel-go/heartwheel/loadtest/internal/latency"
	"github.com/heartwheel-go/heartwheel/loadtest/plot"
)

// tile is a figure of the page in large letters.
type tile struct {
	Name, Value, More string
	Bad               bool // not as it must be
}

// row is a name and what is to be said of it.
type row struct{ Name, Value string }

// phaseRow is a phase: when it was, and how long the answers took.
type phaseRow struct {
	Name, From, To string
	RTT, Probes    *latencyRow // nil without any
}

// latencyRow is a latency in words.
type latencyRow struct{ P50, P99, Max string }

func rowOf(l latency.Summary) *latencyRow {
	if l == (latency.Summary{}) {
		return nil
	}
	ms := plot.Milliseconds.Write
	return &latencyRow{ms(l.P50), ms(l.P99), ms(l.Max)}
}

// about says what was done.
func (r *report) about(cfg config) (sentences []string) {
	say := func(format string, args ...any) { sentences = append(sentences, fmt.Sprintf(format, args...)) }
	answers := "which is answered"
	if !cfg.reply {
		answers = "which is not answered"
	}
	say("%s to %s, each with a heartbeat every %v, %s.", figures.Plural(cfg.conns, "connection"), r.serverName(cfg), cfg.interval, answers)
	switch {
	case cfg.storm:
		say("All of them were to fall silent within %v.", stormTime)
	case cfg.fleet.Nodes > 0 && cfg.silent == 0:
	case cfg.silent == 0:
		say("None of them was to fall silent, so none was to be closed.")
	default:
		say("%s of them were to fall silent, each at a random moment, and the other %s were not.", figures.Thousands(r.Silent.Count), figures.Thousands(cfg.conns-r.Silent.Count))
	}
	switch {
	case !cfg.closes():
		say("This server closes nobody.")
	case r.Silent.Count > 0:
		say("Who falls silent must be closed when %v have passed since its last heartbeat: not before, and not much later. The others must not be.", cfg.timeout)
	}
	sentences = append(sentences, cfg.fleet.About()...)
	if cfg.probes > 0 {
		say("%s besides spoke every %v until the end; their round trips count apart.", figures.Plural(cfg.probes, "probe"), probeInterval)
	}
	return sentences
}

func (r *report) serverName(cfg config) string {
	switch {
	case cfg.addr != "":
		return "the server at " + cfg.addr
	case cfg.fleet.Nodes > 0:
		return "a fleet of " + figures.Plural(cfg.fleet.Nodes, "gateway")
	case cfg.baseline != "":
		return "a server without Heartwheel (" + cfg.baseline + ")"
	case r.Run.Procs > 1:
		return fmt.Sprintf("%d echo-heartbeat servers", r.Run.Procs)
	default:
		return "an echo-heartbeat server"
	}
}

func (r *report) tiles() (tiles []tile) {
	ms := plot.Milliseconds.Write
	add := func(t tile) { tiles = append(tiles, t) }
	add(tile{
		Name: "connections opened", Value: figures.Thousands(r.Conns.Established), Bad: r.Conns.Failed > 0,
		More: fmt.Sprintf("%s failed; %s per second", figures.Thousands(r.Conns.Failed), figures.Thousands(int(r.ConnectPerSecond))),
	})
	if r.Silent.Count > 0 {
		add(tile{
			Name: "silent ones closed", Value: figures.Thousands(r.Silent.Closed), Bad: r.Silent.Early+r.Silent.Unclosed > 0,
			More: fmt.Sprintf("of %s; %s too early, %s never", figures.Thousands(r.Silent.Count), figures.Thousands(r.Silent.Early), figures.Thousands(r.Silent.Unclosed)),
		})
	}
	if r.Live.Count > 0 {
		add(tile{
			Name: "live ones closed", Value: figures.Thousands(r.Live.WronglyClosed), Bad: r.Live.WronglyClosed > 0,
			More: fmt.Sprintf("of %s, in %s heartbeats", figures.Thousands(r.Live.Count), figures.Thousands(int(r.Live.Heartbeats))),
		})
	}
	if l := r.Silent.LateMs; l != (latency.Summary{}) {
		add(tile{Name: "closed late, p99", Value: ms(l.P99), More: fmt.Sprintf("p50 %s, max %s", ms(l.P50), ms(l.Max))})
	}
	if r.Fleet != nil {
		r.Fleet.Highlights(func(bad bool, name, value, more string) {
			add(tile{Name: name, Value: value, More: more, Bad: bad})
		})
	}
	if l := r.Live.RTTMs; l != (latency.Summary{}) {
		add(tile{Name: "round trip, p99", Value: ms(l.P99), More: fmt.Sprintf("p50 %s, max %s", ms(l.P50), ms(l.Max))})
	}
	if s := r.Server; s != nil && s.SteadyRSS > 0 {
		bytes := plot.Bytes.Write
		add(tile{
			Name: "server memory per connection", Value: bytes(s.BytesPerConn),
			More: fmt.Sprintf("%s with all of them", bytes(float64(s.SteadyRSS))),
		})
		add(tile{
			Name: "server cores, steady", Value: fmt.Sprintf("%.2f", s.SteadyCores),
			More: fmt.Sprintf("this program %.2f, all else %.2f", r.Client.SteadyCores, r.Client.OtherCores),
		})
	}
	return tiles
}

func (r *report) phaseRows(cfg config, h *history) (rows []phaseRow) {
	v := view{cfg: cfg, history: h}
	for _, b := range v.bands() {
		row := phaseRow{Name: b.Name, From: plot.Elapsed.Write(b.From), To: plot.Elapsed.Write(b.To)}
		for _, p := range r.Phases {
			if p.Phase == b.Name {
				row.RTT, row.Probes = rowOf(p.RTTMs), rowOf(p.ProbesMs)
			}
		}
		rows = append(rows, row)
	}
	return rows
}

func (r *report) settingRows(cfg config) []row {
	yes := map[bool]string{true: "yes", false: "no"}
	rows := []row{
		{"server", r.Run.Server},
		{"server processes", strconv.Itoa(r.Run.Procs)},
		{"threads of this program", strconv.Itoa(r.Run.Workers)},
		{"connections", figures.Thousands(cfg.conns)},
		{"probes", figures.Thousands(cfg.probes)},
		{"share that falls silent", strconv.FormatFloat(100*cfg.silent, 'g', -1, 64) + " %"},
		{"all at once", yes[cfg.storm]},
		{"time between heartbeats", cfg.interval.String()},
		{"heartbeats are answered", yes[cfg.reply]},
		{"sent together within", or(cfg.quantum, "none")},
		{"timeout", cfg.timeout.String()},
		{"tick", or(cfg.tick, "the server's default")},
		{"opened per second, at most", figures.Thousands(cfg.ramp)},
		{"duration after that", cfg.duration.String()},
	}
	if cfg.fleet.Nodes > 0 {
		rows = rows[:len(rows)-1]
		cfg.fleet.Settings(func(name, value string) { rows = append(rows, row{name, value}) })
	}
	rows = append(rows, row{"an answer or a close fails when later than", cfg.margin().String()})
	if cfg.addr != "" {
		rows = append(rows[:1], rows[2:]...) // it may have as many as it likes
	}
	m := r.Machine
	return append(rows,
		row{"processor", fmt.Sprintf("%s, %s", m.CPU, figures.Plural(m.Cores, "core"))},
		row{"kernel", m.Kernel},
		row{"Go", m.Go},
		row{"descriptors per process", figures.Thousands(m.Files)},
	)
}

// or returns what a duration of 0 means, or the duration.
func or(d time.Duration, zero string) string {
	if d == 0 {
		return zero
	}
	return d.String()
}
