package main

import (
	"fmt"
	"slices"
	"time"
)

// figures are what the clients have noticed, and what the servers have done.
type figures struct {
	clientsReport
	done     int64 // requests, by the servers' count
	offlines int64 // sessions told to be offline though their clients were there, or on their way
}

func (f *figures) add(r clientsReport) {
	f.Answered += r.Answered
	f.Again += r.Again
	f.Failed += r.Failed
	f.Byes += r.Byes
	f.Cut += r.Cut
	f.Attempts += r.Attempts
	f.Gaps = append(f.Gaps, r.Gaps...)
	slices.Sort(f.Gaps)
	if f.Error == "" {
		f.Error = r.Error
	}
	if f.Kinds == nil {
		f.Kinds = make(map[string]int64)
	}
	for kind, n := range r.Kinds {
		f.Kinds[kind] += n
	}
}

// twice returns the requests that were done twice. Killed servers can't say what they have done.
func (f *figures) twice() int64 { return f.done - f.Answered }

// gap returns an upper bound of the q-quantile of the times without a server.
func (f *figures) gap(q float64) time.Duration {
	if len(f.Gaps) == 0 {
		return 0
	}
	return time.Duration(f.Gaps[min(int(q*float64(len(f.Gaps))), len(f.Gaps)-1)]) * time.Millisecond
}

func (f *figures) lines(cfg config) []string {
	twice := fmt.Sprintf("%d done twice", f.twice())
	if cfg.kill {
		twice = "killed servers don't tell which were done twice"
	}
	lines := []string{
		fmt.Sprintf("requests: %d answered, %d of them sent again after a goodbye; %d failed; %s", f.Answered, f.Again, f.Failed, twice),
		fmt.Sprintf("connections: %d ended with a goodbye, %d were cut; %d attempts to connect failed", f.Byes, f.Cut, f.Attempts),
		fmt.Sprintf("clients without a server for: p50 %v, p99 %v, max %v", f.gap(.5), f.gap(.99), f.gap(1)),
		fmt.Sprintf("sessions: of %d that came back, %d were resumed, %d moved, %d new; %d told to be offline",
			len(f.Gaps), f.Kinds["resumed"], f.Kinds["moved"], f.Kinds["new"], f.offlines),
	}
	if f.Error != "" {
		lines = append(lines, "the first error: "+f.Error)
	}
	return lines
}

// faults returns what somebody has noticed.
func (f *figures) faults(cfg config, fleet bool) (faults []string) {
	fail := func(n int64, what string) {
		if n != 0 {
			faults = append(faults, fmt.Sprintf("%d %s", n, what))
		}
	}
	fail(f.Failed, "requests failed")
	fail(f.Cut, "connections were cut")
	fail(f.Attempts, "attempts to connect failed")
	if !cfg.kill {
		fail(f.twice(), "requests were done twice")
	}
	if most := f.gap(1); most > cfg.back {
		faults = append(faults, fmt.Sprintf("a client was without a server for %v, more than %v", most, cfg.back))
	}
	if want := int64(cfg.clients) * int64(cfg.rounds); int64(len(f.Gaps)) < want {
		faults = append(faults, fmt.Sprintf("%d clients came back, and not %d: each was on a server that was restarted", len(f.Gaps), want))
	}
	if fleet {
		fail(f.Kinds["new"], "sessions were lost")
		fail(f.offlines, "sessions were told to be offline")
	}
	return faults
}
