package main

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"
)

// fleetReport is what a run has found of a fleet.
type fleetReport struct {
	Nodes             int            `json:"nodes"`
	Sessions          int            `json:"sessions"` // when all were there, as the clients know
	LeaseS            float64        `json:"lease_s"`
	RenewS            float64        `json:"renew_s"`
	NodeLeaseS        float64        `json:"node_lease_s"`        // 0 is none
	RenewalsPerSecond float64        `json:"renewals_per_second"` // in the steady phase
	ByNode            []nodeReport   `json:"by_node"`
	Redis             *redisReport   `json:"redis"`  // null for one that is not our own
	Prefix            string         `json:"prefix"` // of the keys that are left in that
	Offlines          offlineReport  `json:"offlines"`
	Kill              *killReport    `json:"kill,omitempty"`
	Rolling           *rollingReport `json:"rolling,omitempty"`
	Byes              map[string]int `json:"byes"`            // the reasons that clients were told
	NotBack           int            `json:"not_back"`        // clients that have found no node until the end
	Attempts          int            `json:"failed_attempts"` // to find one

	// What the nodes have counted.
	Refused  int64 `json:"refused"`
	Lost     int64 `json:"lost_leases"`
	Held     int64 `json:"held"`
	Failures int64 `json:"failed_calls"`

	ledger    *ledger
	detection []time.Duration
	died      []string // nodes that have ended by themselves, and how
	abandoned int
	unsaid    int      // registrations of which no node has said that they are online
	deviating []string // nodes that have other sessions than their clients
	renewals  int64    // in the steady phase
	expected  int64    // of them, at least
	failure   error    // of the first attempt to find a node that has failed
	backwards int
	forgotten int
	strange   int    // lines of gateways that can't be understood
	example   string // of one
}

// nodeReport is what one of the first nodes has when all sessions are there, and does in the
// steady phase.
type nodeReport struct {
	Name              string  `json:"name"`
	Sessions          int     `json:"sessions"`      // as its clients know
	SaysSessions      int     `json:"says_sessions"` // as it said last in the steady phase
	RenewalsPerSecond float64 `json:"renewals_per_second"`
	Cores             float64 `json:"cores"`
	RSSBytes          int64   `json:"rss_bytes"`
}

// redisReport is what Redis has used.
type redisReport struct {
	SteadyCores float64 `json:"steady_cores"`
	AfterCores  float64 `json:"after_cores"` // from the kill or the first restart on
	RSSBytes    int64   `json:"rss_bytes"`   // in the steady phase
}

// offlineReport is what was told of ends.
type offlineReport struct {
	Told         int            `json:"told"`
	Reasons      map[string]int `json:"reasons"`
	WrongLive    int            `json:"wrong_live"`    // their connections were open
	WrongBack    int            `json:"wrong_back"`    // they were back
	WrongDrained int            `json:"wrong_drained"` // they were on their way to another node
	Unknown      int            `json:"unknown"`       // epochs that nobody has had
	Unwelcome    int            `json:"unwelcome"`     // of registrations that never came to a WELCOME
	Crossed      int            `json:"crossed"`       // told right after their clients were back
	Crossable    int            `json:"crossable"`     // of those, how many may be
	CrossedMs    float64        `json:"crossed_ms"`    // how long after, at most
	ToleranceMs  float64        `json:"tolerance_ms"`  // for that
	Repeated     int            `json:"repeated"`
	SilentLost   int            `json:"silent_lost"` // not told, though a node had closed their connections
}

func (o offlineReport) wrong() int { return o.WrongLive + o.WrongBack + o.WrongDrained + o.Unknown }

// killReport is what has become of the sessions of nodes that were killed.
type killReport struct {
	Nodes        []string `json:"nodes"`
	Sessions     int      `json:"sessions"`
	Stayed       int      `json:"stayed_away"`
	Back         int      `json:"back"`
	BackAfterEnd int      `json:"back_after_offline"`
	Told         int      `json:"told"`
	Lost         int      `json:"lost"`
	Late         int      `json:"late"`  // later than the limit
	Tardy        int      `json:"tardy"` // later than that and the margin
	LimitS       float64  `json:"limit_s"`
	MarginS      float64  `json:"margin_s"`
	DetectionMs  latency  `json:"detection_ms"` // from the kill
	FirstMs      float64  `json:"first_ms"`
}

// rollingReport is what has become of clients whose nodes were ended in peace.
type rollingReport struct {
	Restarts int     `json:"restarts"`
	Resumed  int     `json:"resumed"` // clients that have gone on elsewhere within the time for that
	Moved    int     `json:"moved"`   // those whose session the node had not left by then
	Anew     int     `json:"anew"`    // and those that began anew
	GapMs    latency `json:"gap_ms"`  // without a node
}

// tally is what the clients have counted.
type tally struct {
	byes            map[string]int
	notBack, failed int
	failure         error // the first
}

func newFleetReport(cfg config, fleet *fleet, l *ledger, t tally) *fleetReport {
	f := l.judge(cfg)
	r := &fleetReport{
		Nodes: cfg.nodes, Prefix: fleet.prefix, LeaseS: cfg.lease.Seconds(), RenewS: cfg.renew.Seconds(), NodeLeaseS: cfg.nodeLease.Seconds(),
		Byes: t.byes, NotBack: t.notBack, Attempts: t.failed, failure: t.failure, ledger: l, backwards: f.backwards, forgotten: f.forgotten, abandoned: f.abandoned, unsaid: f.unsaid, died: fleet.bury(),
		Offlines: offlineReport{
			Told: f.told, Reasons: f.reasons, WrongLive: f.wrongLive, WrongBack: f.wrongBack, WrongDrained: f.wrongDrained,
			Unknown: f.unknown, Unwelcome: f.unwelcome, Repeated: f.repeated, SilentLost: f.silentLost,
			Crossed: f.crossed, Crossable: f.crossable(cfg), CrossedMs: milliseconds(f.crossing), ToleranceMs: milliseconds(f.tolerance),
		},
	}
	if cfg.kill > 0 {
		r.Kill = &killReport{
			Sessions: f.orphans, Stayed: f.stayed, Back: f.back, BackAfterEnd: f.backAfterEnd,
			Told: len(f.detection), Lost: f.lost, Late: f.late, Tardy: f.tardy,
			LimitS: cfg.detectable().Seconds(), MarginS: telling.Seconds(),
			FirstMs: milliseconds(at(f.detection, 0)),
			DetectionMs: latency{
				P50: milliseconds(at(f.detection, 0.5)), P99: milliseconds(at(f.detection, 0.99)), Max: milliseconds(at(f.detection, 1)),
			},
		}
		r.detection = f.detection
	}
	if cfg.rolling {
		r.Rolling = &rollingReport{Resumed: f.resumed, Moved: f.moved, Anew: f.anew, GapMs: f.gap.latency()}
	}
	r.read(fleet)
	return r
}

// at returns the value that a share of all is not above, of values in their order.
func at(sorted []time.Duration, share float64) time.Duration {
	if len(sorted) == 0 {
		return 0
	}
	return sorted[max(int(math.Ceil(share*float64(len(sorted)))), 1)-1]
}

// read takes in what the nodes and Redis have said and used.
func (r *fleetReport) read(f *fleet) {
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
		report := nodeReport{Name: n.name, Sessions: had.sessions, RSSBytes: steady.bytes, Cores: cores(had.used, steady.used, passed)}
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
		r.Redis = &redisReport{
			SteadyCores: cores(u.before.redis, u.steady.redis, passed),
			AfterCores:  cores(u.steady.redis, u.after.redis, u.after.at.Sub(u.steady.at)),
			RSSBytes:    u.steady.redisBytes,
		}
	}
}

// compare looks at whether a node says that it has the sessions of its clients, which were as many
// at first and so many in the end: some may have fallen silent, and be closed at this moment.
func (r *fleetReport) compare(n nodeReport, end int) {
	slack := 0
	if end < n.Sessions {
		slack = 5 + n.Sessions/100
	}
	if n.SaysSessions < end-slack || n.SaysSessions > n.Sessions {
		r.deviating = append(r.deviating, fmt.Sprintf("%s says %d, and its clients %d", n.Name, n.SaysSessions, end))
	}
}

// slowCalls is how many calls of a node to Redis may take too long. They are repeated, and what is
// lost by them is counted apart.
const slowCalls = 3

// judgeFleet says why the fleet has not passed, if it has not.
func (r *report) judgeFleet() {
	f := r.Fleet
	if len(f.died) > 0 {
		r.Verdict, r.Reasons = fail, slices.Concat(f.died, r.Reasons) // before what has come of it
	}
	for _, fault := range []struct {
		n    int
		what string
	}{
		{f.Offlines.WrongLive, "sessions were told to be offline while their connections were open"},
		{f.Offlines.WrongBack, "sessions were told to be offline when they were back"},
		{f.Offlines.WrongDrained, "sessions were told to be offline whose node was ended in peace"},
		{f.Offlines.Unknown, "sessions were told to be offline with an epoch that nobody has had"},
		{f.Offlines.SilentLost, "sessions whose connections a node had closed were never told to be offline"},
		{f.unsaid, "registrations were never told to be online"},
		{int(f.Lost), "leases were lost by nodes that were there"},
		{f.abandoned, "sessions of nodes that have ended by themselves were never told to be offline"},
		{f.backwards, "registrations had an epoch that was not higher than the one before"},
		{f.forgotten, "clients that came back in time were new to their node"},
		{f.strange, "lines of gateways can't be understood, such as " + f.example},
	} {
		if fault.n > 0 {
			r.fail("%d %s", fault.n, fault.what)
		}
	}
	if f.Failures > int64(f.Nodes*slowCalls) {
		r.fail("%d calls to Redis have failed, where %d for each node are a slow moment", f.Failures, slowCalls)
	}
	if n := len(f.deviating); n > 0 {
		r.fail("%d nodes do not have the sessions of their clients: %s", n, strings.Join(f.deviating, "; "))
	}
	// With leases of nodes, those of sessions are hardly ever extended.
	if f.NodeLeaseS == 0 && f.renewals < f.expected-f.expected/10 {
		r.fail("%d leases were extended in the steady phase, which takes %d at least", f.renewals, f.expected)
	}
	if o := f.Offlines; o.Crossed > o.Crossable {
		r.fail("%d sessions were told to be offline right after they were back, of which %d may be by chance", o.Crossed, o.Crossable)
	}
	if f.NotBack > 0 {
		r.fail("%d clients found no node until the end, after %d attempts, the first of which failed with: %v", f.NotBack, f.Attempts, cmp.Or(f.failure, errNoAnswer))
	}
	if k := f.Kill; k != nil {
		if k.Lost > 0 {
			r.fail("%d of %d sessions of killed nodes were never told to be offline", k.Lost, k.Sessions)
		}
		if k.Tardy > 0 {
			r.fail("%d of %d sessions of killed nodes were told to be offline more than %vs after %vs", k.Tardy, k.Sessions, k.MarginS, k.LimitS)
		}
		if k.Lost+k.Tardy > 0 && f.Held > 0 {
			r.fail("the fleet has held %d slots back, whose sessions are told a lease later: too many of a slot were to expire at once, or nobody has looked for a while", f.Held)
		}
	}
}
