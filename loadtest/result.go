package main

import (
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"
)

// result is what has happened to the connections.
type result struct {
	established, failed          int
	silent, closed, early        int
	unclosed                     int
	live, wronglyClosed, starved int
	tardy                        int // silent ones that were closed more than margin late
	heartbeats, unsent, stray    int64
	unanswered                   int64 // for more than margin
	ramp                         time.Duration
	firstFailure                 error
	late, rtt                    *hdrhistogram.Histogram
}

// report judges the whole run.
func (res *result) report(cfg config) *report {
	r := &report{Verdict: pass, Reasons: []string{}}
	r.Conns.Requested, r.Conns.Established, r.Conns.Failed = cfg.conns, res.established, res.failed
	r.Silent.Count, r.Silent.Closed, r.Silent.Early, r.Silent.Unclosed = res.silent, res.closed, res.early, res.unclosed
	r.Silent.LateMs = latencyOf(res.late)
	r.Live.Count, r.Live.WronglyClosed, r.Live.Heartbeats = res.live, res.wronglyClosed+res.starved, res.heartbeats
	r.Live.RTTMs = latencyOf(res.rtt)
	r.ConnectPerSecond = float64(res.established) / res.ramp.Seconds()

	if res.failed > 0 {
		r.fail("%d of %d connections failed, the first with: %v", res.failed, cfg.conns, res.firstFailure)
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
	return r
}
