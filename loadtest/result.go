package main

import (
	"errors"
	"time"

	"github.com/heartwheel-go/heartwheel/loadtest/fleet"
	"github.com/heartwheel-go/heartwheel/loadtest/internal/latency"
)

var errNoAnswer = errors.New("no answer in time")

// result is what has happened to the connections of one worker, or of all.
type result struct {
	established, failed          int
	silent, closed, early        int
	unclosed                     int
	live, wronglyClosed, starved int
	tardy                        int // silent ones that were closed more than margin late
	heartbeats, unsent, stray    int64
	unanswered                   int64         // for more than margin
	ramp, end                    time.Duration // since the start
	firstFailure                 error
	firstClose, lastClose        time.Duration // of silent ones
	history                      *history      // of the whole run; nil if nobody wants it
	fleet                        *fleet.Report // nil without a fleet

	late    latency.Histogram         // after the timeout
	ahead   latency.Histogram         // of it, those that were early
	lag     latency.Histogram         // from when a heartbeat was due until it was sent
	rtt     [phases]latency.Histogram // from when a heartbeat was due to its answer
	probing [phases]latency.Histogram // the same of the probes
}

// add adds what another worker has seen.
func (res *result) add(other *result) {
	res.established += other.established
	res.failed += other.failed
	res.silent += other.silent
	res.closed += other.closed
	res.early += other.early
	res.unclosed += other.unclosed
	res.live += other.live
	res.wronglyClosed += other.wronglyClosed
	res.starved += other.starved
	res.tardy += other.tardy
	res.heartbeats += other.heartbeats
	res.unsent += other.unsent
	res.stray += other.stray
	res.unanswered += other.unanswered
	if res.firstFailure == nil {
		res.firstFailure = other.firstFailure
	}
	if other.firstClose > 0 && (res.firstClose == 0 || other.firstClose < res.firstClose) {
		res.firstClose = other.firstClose
	}
	res.lastClose = max(res.lastClose, other.lastClose)
	res.late.Add(other.late)
	res.ahead.Add(other.ahead)
	res.lag.Add(other.lag)
	for p := range phases {
		res.rtt[p].Add(other.rtt[p])
		res.probing[p].Add(other.probing[p])
	}
}

// sinceOpen returns the round trips of all phases after the ramp.
func (res *result) sinceOpen() *latency.Histogram {
	all := new(latency.Histogram)
	for p := ramping + 1; p < phases; p++ {
		all.Add(res.rtt[p])
	}
	return all
}
