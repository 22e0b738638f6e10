package fleet

import (
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// world is a model with two nodes and one session, and what all of them know.
type world struct {
	*model
	older  *model // what a replica has: as it was before the last step
	nodes  [2]actor
	given  []given
	taken  []event  // ends that somebody has taken and not settled
	epochs int64    // the highest
	looked int64    // when somebody has swept last, or the server has begun, in µs
	calm   [2]int64 // until when no session, and no node, may expire since nobody did
	lost   bool     // the server has lost something
}

// actor is a node: it knows its own registration, or -1, and what it has heard of its own lease.
type actor struct {
	own    int
	term   int64
	good   int64  // when it asked for that, in µs
	server string // whose data that was
}

// given is a registration, and what its node believes of it.
type given struct {
	token    token
	node     int
	term     int64 // of its node, when that asked
	good     int64 // when it asked for the lease that it has, in µs
	over     bool  // closed, detached, or refused: the node does not serve it any more
	excused  bool  // its end may be told though its node serves it: kicked, lost in a failover
	told     bool
	followed bool // by another registration
	forgot   bool // the server has lost that, or that it was followed
}

const only = "s"

var scheduleConfig = Config{Lease: 90 * time.Second, Renew: 30 * time.Second, Resume: 60 * time.Second, MaxExpire: 1}

// nodeScheduleConfig is one in which a node's lease is half of a session's.
var nodeScheduleConfig = Config{
	Lease: 180 * time.Second, NodeLease: 90 * time.Second, Renew: 60 * time.Second, Resume: 60 * time.Second, MaxExpire: 1,
}

// steps are what can happen, by name.
var steps = map[string]func(w *world) string{
	"registerA": func(w *world) string { return w.registers(0) },
	"registerB": func(w *world) string { return w.registers(1) },
	"extendA":   func(w *world) string { return w.extends(0) },
	"extendB":   func(w *world) string { return w.extends(1) },
	"closeA":    func(w *world) string { return w.leaves(0, 0) },
	"closeB":    func(w *world) string { return w.leaves(1, 0) },
	"detachA":   func(w *world) string { return w.leaves(0, 60_000) },
	"kick": func(w *world) string {
		if w.kick(only) {
			for i := range w.given {
				w.given[i].excused = true
			}
		}
		return ""
	},
	"sweep": func(w *world) string { return w.sweeps() },
	"ack":   func(w *world) string { return w.settles(true) },
	"nack":  func(w *world) string { return w.settles(false) },
	"renew": func(w *world) string { w.now += 30_000_000; return "" },
	"lease": func(w *world) string { w.now += 91_000_000; return "" },
	"time":  func(w *world) string { return w.looks(10) },
	"beatA": func(w *world) string { return w.beats(0) },
	"beatB": func(w *world) string { return w.beats(1) },
	// Long enough for a node with a fresh lease to be dead, before a look for its sessions.
	"dies": func(w *world) string { return w.looks(9) },
	"ages": func(w *world) string { return w.looks(8) },
	"failover": func(w *world) string {
		w.failOver(w.older, w.server+"'")
		w.now += 1000
		w.forget()
		w.calm = [2]int64{w.now + w.lease*1000, w.now + w.nodeLease*1000}
		return ""
	},
	"loss": func(w *world) string {
		w.lose()
		w.server += "'"
		w.now += 1000
		w.forget()
		return ""
	},
}

// looks has time go by while somebody looks for what has ended.
func (w *world) looks(times int) string {
	for range times {
		w.now += 10_000_000
		if fault := w.sweeps(); fault != "" {
			return fault
		}
	}
	return ""
}

// beats extends a node's lease, and its session's if the term is new.
func (w *world) beats(node int) string {
	a := &w.nodes[node]
	lives := a.term != 0 && w.now-a.good < w.nodeLease*1000
	term := w.extendNode(incarnation{byte(node + 1)})
	if term == a.term {
		if a.server != w.server {
			return "a node does not learn that the server may have lost something"
		}
		a.good = w.now
		return ""
	}
	if lives && !w.lost {
		return "a node that lives was taken for dead"
	}
	served := a.own >= 0 && w.serves(a.own)
	a.term, a.good, a.server = term, w.now, w.server
	return w.extendsOwn(node, served)
}

// serves reports whether the node of a registration does, by its own clock.
func (w *world) serves(i int) bool {
	g := w.given[i]
	a := w.nodes[g.node]
	return !g.over && w.now-g.good < w.lease*1000 &&
		(w.nodeLease == 0 || g.term == a.term && w.now-a.good < w.nodeLease*1000)
}

// forget notes that the server may have lost its earlier answers.
func (w *world) forget() {
	for i := range w.given {
		w.given[i].excused, w.given[i].forgot = true, true
	}
	w.taken, w.lost = nil, true
}

func (w *world) registers(node int) string {
	ask := registration{id: only}
	return w.registered(node, w.register(incarnation{byte(node + 1)}, string(rune('A'+node)), ask))
}

func (w *world) registered(node int, r registered) string {
	if r.token.epoch() <= w.epochs {
		return fmt.Sprintf("epoch %d after %d", r.token.epoch(), w.epochs)
	}
	w.epochs = r.token.epoch()
	if len(w.given) == 0 {
		w.looked = w.now // before, there was nothing to look at
	}
	for i := range w.given {
		w.given[i].followed = true
	}
	if own := w.nodes[node].own; own >= 0 {
		w.given[own].over = true
	}
	w.nodes[node] = actor{len(w.given), r.term, w.now, w.server}
	w.given = append(w.given, given{token: r.token, node: node, term: r.term, good: w.now})
	return ""
}

func (w *world) extends(node int) string {
	own := w.nodes[node].own
	return w.extendsOwn(node, own >= 0 && w.serves(own))
}

// extendsOwn extends a node's session, which this serves, or did so before it knew more.
func (w *world) extendsOwn(node int, served bool) string {
	own := w.nodes[node].own
	if own < 0 || w.given[own].over {
		return ""
	}
	g := &w.given[own]
	switch v := w.extend(claim{only, g.token}); v {
	case held:
		if g.followed && !g.forgot {
			return "one that was superseded is held"
		}
		if g.told && !g.excused {
			return "one whose end was told is held"
		}
		g.good, g.term = w.now, w.nodes[node].term
	case unknown:
		if !g.forgot {
			return "one that was not lost is unknown"
		}
		r := w.register(incarnation{byte(node + 1)}, string(rune('A'+node)), registration{id: only, before: &g.token})
		if r.kind != kindRefused {
			return w.registered(node, r)
		}
		g.over = true
	default:
		if served && !g.followed && !g.excused {
			return "one that nobody took is refused: " + string(v)
		}
		g.over = true
	}
	return ""
}

func (w *world) leaves(node int, resume int64) string {
	own := w.nodes[node].own
	if own < 0 || w.given[own].over {
		return ""
	}
	w.given[own].over = true
	w.unregister(claim{only, w.given[own].token}, 'c', resume)
	return ""
}

func (w *world) sweeps() string {
	if w.now-w.looked > w.renew*1000 {
		w.calm[0] = w.now + w.lease*1000
	}
	if w.nodeLease > 0 && w.now-w.looked > w.beat*1000 {
		w.calm[1] = w.now + w.nodeLease*1000
	}
	w.looked = w.now
	for _, e := range w.sweep(incarnation{9}, certain, 8, nil).events {
		w.taken = append(w.taken, e)
		if e.reason == 'e' && e.attempts == 1 && !w.mayExpire(e.token) {
			return "one has expired that nobody could extend"
		}
		for i := range w.given {
			g := &w.given[i]
			switch {
			case g.token.epoch() > e.token.epoch() && !g.forgot:
				return "the end of one that somebody has since is told"
			case g.token != e.token:
			case w.serves(i) && !g.excused:
				return "the end of one that its node serves is told"
			default:
				g.told = true
			}
		}
	}
	return ""
}

// mayExpire reports whether a session can have expired now, or its node can.
func (w *world) mayExpire(t token) bool {
	alone := w.now >= w.calm[0]
	if w.nodeLease == 0 {
		return alone
	}
	for _, g := range w.given {
		if g.token == t && w.now-g.good < w.lease*1000 {
			alone = false
		}
	}
	return alone || w.now >= w.calm[1]
}

func (w *world) settles(done bool) string {
	if len(w.taken) > 0 {
		w.settle(told{event: w.taken[0], done: done, after: 10 * time.Second})
		w.taken = w.taken[1:]
	}
	return ""
}

// ends lets all leases run out and tells all ends: then nothing may be left, and each
// registration has been told or followed.
func (w *world) ends() string {
	for range 40 { // sweeps go on all the time, so only the first can be held up by a gap
		w.now += 10_000_000
		if fault := w.sweeps(); fault != "" {
			return fault
		}
		for len(w.taken) > 0 {
			w.settles(true)
		}
	}
	if len(w.leases)+len(w.owners)+len(w.records)+len(w.model.ends)+len(w.model.nodes)+len(w.terms)+len(w.dead) > 0 {
		return "something is left"
	}
	for _, g := range w.given {
		if !g.told && !g.followed && !g.forgot {
			return fmt.Sprintf("the end of %d was not told", g.token.epoch())
		}
	}
	return ""
}

func (w *world) clone() *world {
	c := *w
	c.model = w.model.clone()
	c.given = append([]given(nil), w.given...)
	c.taken = append([]event(nil), w.taken...)
	return &c
}

// explore tries every order of names up to a depth.
func explore(t *testing.T, w *world, names []string, depth int, path []string, count *int) {
	if depth == 0 {
		*count++
		if fault := w.ends(); fault != "" {
			require.Fail(t, fault, strings.Join(path, ", "))
		}
		return
	}
	for _, name := range names {
		next := w.clone()
		next.older = w.model
		path := append(path[:len(path):len(path)], name)
		if fault := steps[name](next); fault != "" {
			require.Fail(t, fault, strings.Join(path, ", "))
		}
		explore(t, next, names, depth-1, path, count)
	}
}

func TestEveryOrderOfStepsOfTwoNodesKeepsThePromises(t *testing.T) {
	exploreAll(t, scheduleConfig, []schedule{
		{depth: 3, names: "registerA registerB extendA extendB closeA closeB detachA kick sweep ack nack renew lease time failover loss"},
		{depth: 5, names: "registerA registerB extendA sweep ack lease"},
		{depth: 6, names: "registerA registerB extendA extendB failover"},
		{depth: 5, names: "registerA registerB extendA closeA sweep time loss"},
		{depth: 6, names: "registerA detachA registerB time nack"},
	})
}

// Nodes have leases, too. A node's lease may end, and the node may come back, at each step.
func TestEveryOrderOfStepsOfTwoNodesWithLeasesKeepsThePromises(t *testing.T) {
	exploreAll(t, nodeScheduleConfig, []schedule{
		{depth: 3, names: "registerA registerB extendA extendB closeA detachA kick sweep ack nack renew lease time dies beatA beatB failover loss"},
		{5, "registerA registerB beatA dies sweep", "registerA"},
		{4, "registerA registerB extendA beatA dies lease", "registerA"},
		{5, "registerB beatA beatB dies failover", "registerA"},
		{5, "beatA beatB ages failover", "registerA"},
		{5, "registerB beatA dies sweep loss", "registerA"},
		{5, "detachA kick beatA dies sweep", "registerA"},
	})
}

type schedule struct {
	depth int
	names string
	first string // what comes before that, if anything
}

func exploreAll(t *testing.T, cfg Config, tests []schedule) {
	for _, test := range tests {
		t.Run(test.names, func(t *testing.T) {
			t.Parallel()
			m := newModel(cfg)
			m.lazy = true
			w := &world{model: m, older: m.clone(), nodes: [2]actor{{own: -1}, {own: -1}}}
			count := 0
			if os.Getenv("HEARTWHEEL_LONG_FAULTS") != "" {
				test.depth++
			}
			if test.first != "" {
				w = w.clone()
				require.Empty(t, steps[test.first](w))
			}
			explore(t, w, strings.Fields(test.names), test.depth, strings.Fields(test.first), &count)
			t.Log(count, "orders")
		})
	}
}
