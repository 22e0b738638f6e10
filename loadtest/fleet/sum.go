package fleet

import (
	"cmp"
	"fmt"
	"time"

	"github.com/heartwheel-go/heartwheel/loadtest/internal/latency"
)

// tally is the counts of all clients.
type tally struct {
	byes            map[string]int
	notBack, failed int
	failure         error // the first
}

// Report adds up the observations of all clients and the words of the nodes since the start of a run.
// end is the length of the run, and longest the longest time of an answer. excused is the number of
// connections cut by a node right before its own end. The clients must not be used any more.
func (f *Fleet) Report(start time.Time, end, longest time.Duration, clients []*Clients) (r *Report, excused int) {
	l := &ledger{end: end, longest: longest, online: map[sessionEpoch]bool{}, failed: map[int32]bool{}}
	t := tally{byes: map[string]int{}, notBack: int(f.away.Load())}
	for _, c := range clients {
		l.registrations = append(l.registrations, c.registrations...)
		for i, m := range c.members {
			if m.failed {
				l.failed[int32(c.first+i)] = true
			}
		}
		t.failed += c.refused
		if t.failure == nil {
			t.failure = c.refusal
		}
		for reason, n := range c.byes {
			t.byes[reason] += n
		}
	}
	for _, n := range f.all() {
		state, ended := f.fate(n)
		l.add(n, state, ended, start)
	}
	for _, r := range l.registrations {
		if r.cut && l.diedUnder(r) {
			excused++
		}
	}
	return f.report(l, t), excused
}

func (f *Fleet) report(l *ledger, t tally) *Report {
	cfg, found := f.cfg, l.judge(f.cfg)
	r := &Report{
		Nodes: cfg.Nodes, Prefix: f.prefix, LeaseS: cfg.Lease.Seconds(), RenewS: cfg.Renew.Seconds(), NodeLeaseS: cfg.NodeLease.Seconds(),
		Byes: t.byes, NotBack: t.notBack, Attempts: t.failed, failure: t.failure,
		cfg: cfg, ledger: l, findings: found, died: f.bury(),
		Offlines: OfflineReport{
			Told: found.told, Reasons: found.reasons, WrongLive: found.wrongLive, WrongBack: found.wrongBack, WrongDrained: found.wrongDrained,
			Unknown: found.unknown, Unwelcome: found.unwelcome, Repeated: found.repeated, SilentLost: found.silentLost,
			Crossed: found.crossed, Crossable: found.crossable(cfg), CrossedMs: latency.Milliseconds(found.crossing), ToleranceMs: latency.Milliseconds(found.tolerance),
		},
	}
	if cfg.Kill > 0 {
		r.Kill = &KillReport{
			Sessions: found.orphans, Stayed: found.stayed, Back: found.back, BackAfterEnd: found.backAfterEnd,
			Told: len(found.detection), Lost: found.lost, Late: found.late, Tardy: found.tardy,
			LimitS: cfg.detectable().Seconds(), MarginS: telling.Seconds(),
			FirstMs: latency.Milliseconds(latency.At(found.detection, 0)), DetectionMs: latency.SummaryOf(found.detection),
		}
	}
	if cfg.Rolling {
		r.Rolling = &RollingReport{Resumed: found.resumed, Moved: found.moved, Anew: found.anew, GapMs: found.gap.Summary()}
	}
	r.read(f)
	return r
}

// read takes in the figures of the nodes and of Redis.
func (r *Report) read(f *Fleet) {
	u := &f.usage
	passed := u.steady.at.Sub(u.before.at)
	for _, n := range f.all() {
		total := n.log.total()
		r.Refused += total.Refused
		r.Lost += total.Lost
		r.Held += total.Held
		r.Failures += total.Failures
		strange, example := n.log.nonsense()
		r.strange += strange
		r.example = cmp.Or(r.example, example)
		switch n.state.Load() {
		case killed:
			r.Kill.Nodes = append(r.Kill.Nodes, n.name)
		case draining:
			r.Rolling.Restarts++
		}
		had, there := u.before.nodes[n]
		if !there {
			continue // it came later
		}
		steady := u.steady.nodes[n]
		report := NodeReport{Name: n.name, Sessions: had.sessions, RSSBytes: steady.bytes, Cores: cores(had.used, steady.used, passed)}
		from, to := n.log.statsBetween(u.before.at, u.steady.at)
		report.SaysSessions = int(to.Sessions)
		if to.at.After(from.at) {
			report.RenewalsPerSecond = float64(to.Renewals-from.Renewals) / to.at.Sub(from.at).Seconds()
		}
		if steady, there := u.steady.nodes[n]; there {
			r.compare(report, steady.sessions)
			r.renewals += to.Renewals - from.Renewals
			r.expected += int64(steady.sessions) * int64(to.at.Sub(u.before.at).Seconds()/r.RenewS)
		}
		r.ByNode = append(r.ByNode, report)
		r.Sessions += report.Sessions
		r.RenewalsPerSecond += report.RenewalsPerSecond
	}
	if f.redis != nil {
		r.Redis = &RedisReport{
			SteadyCores: cores(u.before.redis, u.steady.redis, passed),
			AfterCores:  cores(u.steady.redis, u.after.redis, u.after.at.Sub(u.steady.at)),
			RSSBytes:    u.steady.redisBytes,
		}
	}
}

// compare compares a node's count of its sessions with its clients', at the begin and the end of the
// steady phase. Some may have fallen silent, and be closed at this moment.
func (r *Report) compare(n NodeReport, end int) {
	slack := 0
	if end < n.Sessions {
		slack = 5 + n.Sessions/100
	}
	if n.SaysSessions < end-slack || n.SaysSessions > n.Sessions {
		r.deviating = append(r.deviating, fmt.Sprintf("%s says %d, and its clients %d", n.Name, n.SaysSessions, end))
	}
}
