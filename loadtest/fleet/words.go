package fleet

import (
	"fmt"

	"github.com/heartwheel-go/heartwheel/internal/figures"
	"github.com/heartwheel-go/heartwheel/loadtest/plot"
)

// About says what was done to the fleet.
func (cfg Config) About() (sentences []string) {
	say := func(format string, args ...any) { sentences = append(sentences, fmt.Sprintf(format, args...)) }
	if cfg.Nodes == 0 {
		return nil
	}
	say("Each connection is a session, whose lease of %v in Redis its node extends every %v.", cfg.Lease, cfg.Renew)
	if cfg.NodeLease > 0 {
		say("Each node has a lease of %v.", cfg.NodeLease)
	}
	switch {
	case cfg.Rolling:
		say("One node after the other was ended and started anew, and its clients went to others. Nobody must be told to be offline.")
	case cfg.Kill > 0:
		say("Then %s killed. %s came back elsewhere, at random moments within %v. Who was not back must be told to be offline within %v, and nobody else.",
			verb(cfg.Kill, "node"), figures.Plural(cfg.returning(), "client"), cfg.comebacks(), cfg.detectable())
	default:
		say("Nothing happened to it, so nobody must be told to be offline.")
	}
	return sentences
}

func verb(n int, what string) string {
	if n == 1 {
		return "1 " + what + " was"
	}
	return figures.Plural(n, what) + " were"
}

// Settings calls row with each setting of a fleet.
func (cfg Config) Settings(row func(name, value string)) {
	nodeLease := "none"
	if cfg.NodeLease > 0 {
		nodeLease = cfg.NodeLease.String()
	}
	row("nodes", figures.Thousands(cfg.Nodes))
	row("lease of a session", cfg.Lease.String())
	row("extended every", cfg.Renew.String())
	row("lease of a node", nodeLease)
	row("steady for", cfg.Steady.String())
	row("nodes that are killed", figures.Thousands(cfg.Kill))
}

// Highlights calls tile with each of the most important figures. bad says whether it fails the run.
func (r *Report) Highlights(tile func(bad bool, name, value, more string)) {
	add := func(bad bool, name, value, format string, args ...any) {
		tile(bad, name, value, fmt.Sprintf(format, args...))
	}
	ms, thousands := plot.Milliseconds.Write, figures.Thousands
	if k := r.Kill; k != nil {
		add(k.Lost+k.Tardy > 0, "of killed nodes, offline or back", thousands(k.Sessions-k.Lost), "of %s; %s back; %s lost, %s later than %vs",
			thousands(k.Sessions), thousands(k.Back), thousands(k.Lost), thousands(k.Late), k.LimitS)
		add(false, "offline after the kill, p99", ms(k.DetectionMs.P99), "first %s, p50 %s, max %s", ms(k.FirstMs), ms(k.DetectionMs.P50), ms(k.DetectionMs.Max))
	}
	if d := r.Rolling; d != nil {
		add(r.NotBack > 0, "went to another node", thousands(d.Resumed+d.Moved+d.Anew), "%s anew; without a node p50 %s, max %s", thousands(d.Anew), ms(d.GapMs.P50), ms(d.GapMs.Max))
	}
	add(r.Offlines.Wrong() > 0, "wrongly told to be offline", thousands(r.Offlines.Wrong()), "of %s that were told", thousands(r.Offlines.Told))
	if redis := r.Redis; redis != nil {
		add(false, "cores of Redis, steady", fmt.Sprintf("%.3f", redis.SteadyCores), "%s renewals per second; after that %.3f", thousands(int(r.RenewalsPerSecond)), redis.AfterCores)
	}
}
