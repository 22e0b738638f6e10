package fleet

import (
	"cmp"
	"slices"
	"time"

	"github.com/heartwheel-go/heartwheel/loadtest/internal/latency"
)

// ledger is the observations of the clients and the words of the nodes. Times are since the start of
// the run.
type ledger struct {
	registrations []registration
	offlines      []offline
	nodes         []nodeEnd // by number
	end           time.Duration
	online        map[sessionEpoch]bool // told by nodes
	failed        map[int32]bool        // sessions with a failed attempt to register
	longest       time.Duration         // of all answers
}

// tolerance is the crossing time of this run.
func (l *ledger) tolerance() time.Duration { return min(crossing+l.longest, longestCrossing) }

// registration is a session from its WELCOME until its connection was closed.
type registration struct {
	session, node int32
	epoch         int64
	from, to      time.Duration // to is 0 if it is open at the end
	kind          kind
	cut           bool // by its node, for no reason known then
}

// kind is the state of a session before its registration, as its gateway says it.
type kind uint8

const (
	anew    kind = iota // nothing, or offline
	moved               // at another connection
	resumed             // left by a node that was ended in peace
)

var kinds = map[string]kind{"new": anew, "moved": moved, "resumed": resumed}

// offline is the end of a session, told by a node.
type offline struct {
	sessionEpoch
	at     time.Duration
	reason string
}

type sessionEpoch struct {
	session int32
	epoch   int64
}

// nodeEnd is the end of a node.
type nodeEnd struct {
	name            string
	killed, drained bool
	died            bool // by itself, at most deathNotice before at
	at              time.Duration
}

// The end of a registration may be told for so long after the next registration, or before the client
// sees the close: both are on their way at the same time. In a run with slow answers the ends are as
// slow. longestCrossing is for the slowest machine.
const (
	crossing        = 100 * time.Millisecond
	longestCrossing = time.Second
)

// deathNotice is the time until this program knows of a node's end. The node's clients may know before.
const deathNotice = time.Second

// findings is the judgement on a ledger. All numbers are of sessions, unless said otherwise.
type findings struct {
	told, repeated, crossed int           // offline events: all, repetitions, and those during a new registration
	crossing                time.Duration // the longest of these
	tolerance               time.Duration // for it
	wrongLive               int           // told, with open connections
	wrongBack               int           // told, but back, with that epoch or a later one
	wrongDrained            int           // told, of a drained node
	unwelcome               int           // told, of a registration without a WELCOME
	unknown                 int           // told, with an epoch of nobody
	backwards               int           // registrations with an epoch not above the last
	reasons                 map[string]int

	orphans, back, stayed int             // of killed nodes: all, back, and not
	backAfterEnd          int             // back after they were told to be offline
	lost                  int             // not told
	late                  int             // told later than a lease and a second after the kill
	tardy                 int             // of these, later by more than the margin
	early                 int             // told before their leases can have ended
	detection             []time.Duration // from the kill until they were told, back or not

	resumed, moved, anew int // back after a drain: detached, still attached, or offline
	forgotten            int // new to their node too early to be offline
	gap                  latency.Histogram
	silentLost           int // closed by a node that is up, and not told
	unsaid               int // registrations not told to be online
	abandoned            int // of a node that has ended by itself, and not told
}

// judge compares the words of the nodes with the observations of the clients.
func (l *ledger) judge(cfg Config) *findings {
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

// crossable is the number of ends that may cross with the return of their clients by chance. Clients
// come back at random moments, so their share is the tolerance's in the whole time. More than twice as
// many, and five, are no chance.
func (f *findings) crossable(cfg Config) int {
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

// judgeOfflines returns the first offline of each end.
func (l *ledger) judgeOfflines(f *findings, sessions map[int32][]registration) map[sessionEpoch]offline {
	slices.SortStableFunc(l.offlines, func(a, b offline) int { return cmp.Compare(a.at, b.at) })
	told := map[sessionEpoch]offline{}
	for _, o := range l.offlines {
		if o.at > l.end { // this program closes the connections
			break
		}
		f.told++
		if _, again := told[o.sessionEpoch]; again {
			f.repeated++
			continue
		}
		told[o.sessionEpoch] = o
		f.reasons[o.reason]++
		l.judgeOffline(f, sessions[o.session], o)
	}
	return told
}

func (l *ledger) judgeOffline(f *findings, s []registration, o offline) {
	i := slices.IndexFunc(s, func(r registration) bool { return r.epoch == o.epoch })
	if i < 0 {
		l.judgeUnseen(f, s, o)
		return
	}
	switch node, lives := l.nodes[s[i].node], l.lives(f, s[i], o.at); {
	case lives && i == 0:
		f.wrongLive++
	case lives:
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

// judgeUnseen is for the end of an epoch that its client has not seen.
func (l *ledger) judgeUnseen(f *findings, s []registration, o offline) {
	here := func(r registration) bool { return r.from <= o.at && r.epoch < o.epoch && l.lives(f, r, o.at) }
	switch {
	case !l.online[o.sessionEpoch] && !l.failed[o.session]:
		f.unknown++
	case slices.ContainsFunc(s, here):
		f.wrongLive++ // its node has registered it again
	default:
		f.unwelcome++ // it was there, but its client was gone or had no answer
	}
}

// lives reports whether a registration's node is up at a time, and its connection open for longer.
func (l *ledger) lives(f *findings, r registration, at time.Duration) bool {
	node := l.nodes[r.node]
	dead := node.killed && node.at <= at || node.died && node.at-deathNotice <= at
	return !dead && (r.to == 0 || r.to > at+f.tolerance)
}

// judgeOnline looks at whether a registration was told. The last words of a node may be lost with it.
func (l *ledger) judgeOnline(f *findings, r registration) {
	node, until := l.nodes[r.node], l.end
	if node.killed || node.died {
		until = min(until, node.at)
	}
	if r.from < until-telling && !l.online[sessionEpoch{r.session, r.epoch}] {
		f.unsaid++
	}
}

// judgeEnd looks at the end of a session's i-th registration.
func (l *ledger) judgeEnd(cfg Config, f *findings, s []registration, i int, told map[sessionEpoch]offline) {
	r, node := s[i], l.nodes[s[i].node]
	o, known := told[sessionEpoch{r.session, r.epoch}]
	var next *registration
	if i+1 < len(s) {
		next = &s[i+1]
	}
	switch {
	case node.killed && (r.to == 0 || r.to >= node.at):
		f.orphan(cfg, node.at, next, o.at, known)
		// A connection closed right before the kill is told at once, for another reason.
		if known && o.reason == "expired" && o.at+telling < node.at+cfg.surely() {
			f.early++
		}
		// Later its end may have come without being told yet, and is not told any more.
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

// diedUnder reports whether a registration has ended with a node, by the node's own fault.
func (l *ledger) diedUnder(r registration) bool {
	node := l.nodes[r.node]
	return node.died && (r.to == 0 || r.to >= node.at-deathNotice)
}

// drained is for a client back after a drain.
func (f *findings) drained(cfg Config, next *registration, gap time.Duration) {
	f.gap.Record(gap)
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

// orphan is for a session of a node killed at a time.
func (f *findings) orphan(cfg Config, at time.Duration, next *registration, told time.Duration, known bool) {
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

// add takes in the words of a node, and its end.
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
