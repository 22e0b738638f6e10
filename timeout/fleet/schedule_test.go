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
	taken  []event // ends that somebody has taken and not settled
	epochs int64   // the highest
	looked int64   // when somebody has swept last, or the server has begun, in µs
	calm   int64   // until when nothing may expire since nobody did
}

// actor is a node: it knows its own registration, or -1.
type actor struct{ own int }

// given is a registration, and what its node believes of it.
type given struct {
	token    token
	good     int64 // when it asked for the lease that it has, in µs
	over     bool  // closed, detached, or refused: the node does not serve it any more
	excused  bool  // its end may be told though its node serves it: kicked, lost in a failover
	told     bool
	followed bool // by another registration
	forgot   bool // the server has lost that, or that it was followed
}

const only = "s"

var scheduleConfig = Config{Lease: 90 * time.Second, Renew: 30 * time.Second, Resume: 60 * time.Second, MaxExpire: 1}

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
	// As time goes by where somebody looks all the time.
	"time": func(w *world) string {
		for range 10 {
			w.now += 10_000_000
			if fault := w.sweeps(); fault != "" {
				return fault
			}
		}
		return ""
	},
	"failover": func(w *world) string {
		w.failOver(w.older, w.server+"'")
		w.now += 1000
		w.forget()
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

// forget notes that the server may not know what it has answered.
func (w *world) forget() {
	for i := range w.given {
		w.given[i].excused, w.given[i].forgot = true, true
	}
	w.taken = nil
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
	w.nodes[node].own = len(w.given)
	w.given = append(w.given, given{token: r.token, good: w.now})
	return ""
}

func (w *world) extends(node int) string {
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
		g.good = w.now
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
		alive := w.now-g.good < w.lease*1000
		if alive && !g.followed && !g.excused {
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
	w.unregister(claim{only, w.given[own].token}, resume)
	return ""
}

func (w *world) sweeps() string {
	if w.now-w.looked > w.renew*1000 {
		w.calm = w.now + w.lease*1000
	}
	w.looked = w.now
	for _, e := range w.sweep(8, nil).events {
		w.taken = append(w.taken, e)
		if e.reason == 'e' && e.attempts == 1 && w.now < w.calm {
			return "one has expired that nobody could extend"
		}
		for i := range w.given {
			g := &w.given[i]
			switch {
			case g.token.epoch() > e.token.epoch() && !g.forgot:
				return "the end of one that somebody has since is told"
			case g.token != e.token:
			case !g.over && !g.excused && w.now-g.good < w.lease*1000:
				return "the end of one that its node serves is told"
			default:
				g.told = true
			}
		}
	}
	return ""
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
	if len(w.leases)+len(w.owners)+len(w.records)+len(w.model.ends) > 0 {
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
	for _, test := range []struct {
		depth int
		names string
	}{
		{3, "registerA registerB extendA extendB closeA closeB detachA kick sweep ack nack renew lease time failover loss"},
		{5, "registerA registerB extendA sweep ack lease"},
		{6, "registerA registerB extendA extendB failover"},
		{5, "registerA registerB extendA closeA sweep time loss"},
		{6, "registerA detachA registerB time nack"},
	} {
		t.Run(test.names, func(t *testing.T) {
			t.Parallel()
			m := newModel(scheduleConfig)
			w := &world{model: m, older: m.clone(), nodes: [2]actor{{-1}, {-1}}}
			count := 0
			if os.Getenv("HEARTWHEEL_LONG_FAULTS") != "" {
				test.depth++
			}
			explore(t, w, strings.Fields(test.names), test.depth, nil, &count)
			t.Log(count, "orders")
		})
	}
}
