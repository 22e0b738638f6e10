package main

import (
	"cmp"
	"slices"
	"time"
)

// ledger is what the clients of a fleet have seen, and what its nodes have told. Times are since
// the start of the run.
type ledger struct {
	registrations []registration
	offlines      []offline
	nodes         []nodeEnd // by number
	end           time.Duration
	online        map[sessionEpoch]bool // that nodes have told of
	failed        map[int32]bool        // sessions that were not welcome at some time
	longest       time.Duration         // that an answer has taken
}

// tolerance is what crossing says, for this run.
func (l *ledger) tolerance() time.Duration { return min(crossing+l.longest, longestCrossing) }

// registration is a session from its WELCOME until its connection was closed.
type registration struct {
	session, node int32
	epoch         int64
	from, to      time.Duration // to is 0 where it is open at the end
	kind          kind
	cut           bool // for no reason, as far as was known then
}

// kind is what a session was before its registration, as its gateway says it.
type kind uint8

const (
	anew    kind = iota // nothing, or offline
	moved               // at another connection
	resumed             // left by a node that was ended in peace
)

var kinds = map[string]kind{"new": anew, "moved": moved, "resumed": resumed}

// offline is an end that a node has told.
type offline struct {
	sessionEpoch
	at     time.Duration
	reason string
}

type sessionEpoch struct {
	session int32
	epoch   int64
}

// nodeEnd is when a node was ended.
type nodeEnd struct {
	name            string
	killed, drained bool
	died            bool // by itself, at most deathNotice before
	at              time.Duration
}

// crossing is how much later than a registration the end of the one before may be told, or sooner
// than that a connection is seen to be closed: they may be on their way at the same time. Where
// answers take long in a run, so do the ends; longestCrossing is for the slowest machine.
const (
	crossing        = 100 * time.Millisecond
	longestCrossing = time.Second
)

// deathNotice is within which it is known that a node has ended by itself. Its clients may know
// before.
const deathNotice = time.Second

// findings is what a ledger says of the fleet.
type findings struct {
	told, repeated, crossed int           // offline events, those again, and those while the session was being registered anew
	crossing                time.Duration // the longest of those
	tolerance               time.Duration // for it
	wrongLive               int           // of connections that were open
	wrongBack               int           // of sessions that were back, be it with that epoch or a later one
	wrongDrained            int           // of a node that was ended in peace
	unwelcome               int           // of registrations that never came to a WELCOME
	unknown                 int           // of epochs of which nobody knows
	backwards               int           // registrations with an epoch that was not higher than the last
	reasons                 map[string]int

	orphans, back, stayed int             // of nodes that were killed; those are the others
	backAfterEnd          int             // of those back, when they had been told to be offline
	lost                  int             // that nobody has told of
	late                  int             // that were told of later than a lease and a second after the kill
	tardy                 int             // of those, by more than the margin
	detection             []time.Duration // of those that were told of, back or not: from the kill

	resumed, moved, anew int // back after a drain: detached, not even that, or offline
	forgotten            int // of those anew, or back from a node that was killed, who were not to be offline yet
	gap                  histogram
	silentLost           int // closed by a node that goes on, and nobody has told of
	unsaid               int // that were never told to be online
	abandoned            int // by a node that has ended by itself, and nobody has told of
}

// judge compares what was told with what was so.
func (l *ledger) judge(cfg config) *findings {
	f := &findings{reasons: map[string]int{}, tolerance: l.tolerance()}
	sessions := l.bySession(f)
	told := l.judgeOfflines(f, sessions)
	for _, s := range sessions {
		for i := range s {
			l.judgeOnline(f, s[i])
			l.judgeEnd(cfg, f, s, i, told)
		}
	}
	slices.Sort(f.detection)
	return f
}

// crossable is how many ends may cross with the return of their clients. They come back at random
// moments, so one in so many does by chance as the tolerance is shorter than that time; more than
// twice as many, and some, are no chance.
func (f *findings) crossable(cfg config) int {
	const some = 5
	return some + int(2*float64(f.back)*f.tolerance.Seconds()/cfg.comebacks().Seconds())
}

// bySession returns the registrations of each session in their order.
func (l *ledger) bySession(f *findings) map[int32][]registration {
	slices.SortStableFunc(l.registrations, func(a, b registration) int {
		return cmp.Or(cmp.Compare(a.session, b.session), cmp.Compare(a.from, b.from))
	})
	sessions := map[int32][]registration{}
	for first := 0; first < len(l.registrations); {
		next := first + 1
		for ; next < len(l.registrations) && l.registrations[next].session == l.registrations[first].session; next++ {
			if l.registrations[next].epoch <= l.registrations[next-1].epoch {
				f.backwards++
			}
		}
		sessions[l.registrations[first].session] = l.registrations[first:next]
		first = next
	}
	return sessions
}

// judgeOfflines returns when each end was told first.
func (l *ledger) judgeOfflines(f *findings, sessions map[int32][]registration) map[sessionEpoch]time.Duration {
	slices.SortStableFunc(l.offlines, func(a, b offline) int { return cmp.Compare(a.at, b.at) })
	told := map[sessionEpoch]time.Duration{}
	for _, o := range l.offlines {
		if o.at > l.end { // connections are being closed
			break
		}
		f.told++
		if _, again := told[o.sessionEpoch]; again {
			f.repeated++
			continue
		}
		told[o.sessionEpoch] = o.at
		f.reasons[o.reason]++
		l.judgeOffline(f, sessions[o.session], o)
	}
	return told
}

func (l *ledger) judgeOffline(f *findings, s []registration, o offline) {
	i := slices.IndexFunc(s, func(r registration) bool { return r.epoch == o.epoch })
	if i < 0 {
		if l.online[o.sessionEpoch] || l.failed[o.session] {
			f.unwelcome++ // its client was gone, or nobody has answered it, but it was there
		} else {
			f.unknown++
		}
		return
	}
	r, node := s[i], l.nodes[s[i].node]
	dead := node.killed && node.at <= o.at || node.died && node.at-deathNotice <= o.at
	switch open := r.to == 0 || r.to > o.at+f.tolerance; {
	case !dead && open && i == 0:
		f.wrongLive++
	case !dead && open:
		f.wrongBack++
	case i+1 < len(s) && s[i+1].from+f.tolerance < o.at:
		f.wrongBack++
	case node.drained:
		f.wrongDrained++
	case i+1 < len(s) && s[i+1].from < o.at:
		f.crossed++
		f.crossing = max(f.crossing, o.at-s[i+1].from)
	}
}

// judgeOnline looks at whether a registration was told. What a node says last may be lost with it.
func (l *ledger) judgeOnline(f *findings, r registration) {
	node, until := l.nodes[r.node], l.end
	if node.killed || node.died {
		until = min(until, node.at)
	}
	if r.from < until-telling && !l.online[sessionEpoch{r.session, r.epoch}] {
		f.unsaid++
	}
}

// judgeEnd looks at how the i-th registration of a session has ended.
func (l *ledger) judgeEnd(cfg config, f *findings, s []registration, i int, told map[sessionEpoch]time.Duration) {
	r, node := s[i], l.nodes[s[i].node]
	at, known := told[sessionEpoch{r.session, r.epoch}]
	var next *registration
	if i+1 < len(s) {
		next = &s[i+1]
	}
	switch {
	case node.killed && (r.to == 0 || r.to >= node.at):
		f.orphan(cfg, node.at, next, at, known)
		// Later, its end may have come and not been told yet, and then is not told.
		if next != nil && next.kind == anew && !known && next.from < node.at+cfg.surely() {
			f.forgotten++
		}
	case l.diedUnder(r):
		if limit := node.at + cfg.detectable() + telling; next == nil && !known && limit < l.end {
			f.abandoned++
		}
	case r.to == 0:
	case node.drained && next != nil:
		f.drained(cfg, next, next.from-r.to)
	case !node.drained && next == nil && !known && r.to < l.end-telling:
		f.silentLost++
	}
}

// diedUnder reports whether a registration has ended with its node, which has ended by itself.
func (l *ledger) diedUnder(r registration) bool {
	node := l.nodes[r.node]
	return node.died && (r.to == 0 || r.to >= node.at-deathNotice)
}

// drained is for a client that is back after its node was ended in peace.
func (f *findings) drained(cfg config, next *registration, gap time.Duration) {
	f.gap.record(gap)
	switch next.kind {
	case resumed:
		f.resumed++
	case moved:
		f.moved++
	default:
		f.anew++
		if gap < cfg.resume() {
			f.forgotten++
		}
	}
}

// orphan is for a session of a node that was killed at a time.
func (f *findings) orphan(cfg config, at time.Duration, next *registration, told time.Duration, known bool) {
	limit := at + cfg.detectable()
	f.orphans++
	if next == nil {
		f.stayed++
	} else {
		f.back++
	}
	if next != nil && known && told < next.from {
		f.backAfterEnd++
	}
	switch {
	case !known && (next == nil || next.from > limit+telling):
		f.lost++
	case known && (next == nil || told < next.from):
		f.detection = append(f.detection, told-at)
		if told > limit {
			f.late++
		}
		if told > limit+telling {
			f.tardy++
		}
	}
}

// add takes in what a node has told, and how it has ended.
func (l *ledger) add(n *node, state int32, ended, start time.Time) {
	l.nodes = append(l.nodes, nodeEnd{
		name: n.name, killed: state == killed, drained: state == draining, died: state == died, at: ended.Sub(start),
	})
	n.log.mu.Lock()
	defer n.log.mu.Unlock()
	for _, e := range n.log.online {
		l.online[e.sessionEpoch] = true
	}
	for _, e := range n.log.offline {
		l.offlines = append(l.offlines, offline{e.sessionEpoch, e.at.Sub(start), e.reason})
	}
}
