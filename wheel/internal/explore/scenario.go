package explore

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/heartwheel-go/heartwheel/wheel/internal/explore/sched"
)

// before is a state of the timers before the actors begin, and the steps to get there.
type before struct {
	name  string
	steps []step
}

// steps makes a list of steps on timer A.
func steps(list ...op) (s []step) {
	for _, op := range list {
		s = append(s, step{op, 0})
	}
	return s
}

// befores are the states of one timer. Unless a name says otherwise, the hand's next pass finds
// the timer due.
var befores = []before{
	{"unstarted", steps(rest, rest, rest, rest)},
	{"just filed", steps(rest, rest, rest, rest, start)},
	{"pending", steps(rest, rest, start, rest, rest)},
	{"pending, and held back for a late hand", steps(rest, rest, start, advance, rest)},
	{"held back in the last pass", steps(rest, start, advance, rest, advance)},
	{"touched, and to be filed again", steps(rest, rest, start, rest, rest, touch)},
	{"looked at", steps(rest, rest, start, rest, rest, look)},
	{"moved", steps(rest, rest, start, rest, rest, moveShort)},
	{"moved far", steps(rest, rest, start, rest, rest, moveLong)},
	{"in the backlog", steps(rest, start, rest, rest, rest)},
	{"handed over early", steps(rest, rest, rest, rest, start, handOver)},
	{"undecided", steps(rest, start, rest, rest, rest, takeUp)},
	{"rearmed, to a deadline in the past", steps(rest, start, rest, rest, rest, takeUp, rearmPast)},
	{"rearmed", steps(rest, start, rest, rest, rest, takeUp, rearmLater)},
	{"touched in the past", steps(rest, start, rest, rest, rest, takeUp, touchAtPast)},
	{"expired", steps(rest, start, rest, rest, rest, takeUp, expire)},
	{"removed", steps(rest, rest, rest, rest, start, remove)},
}

// program is what one actor does.
type program []step

func (p program) String() string {
	var names []string
	for _, s := range p {
		names = append(names, s.String())
	}
	return strings.Join(names, ", ")
}

// isHand reports whether the actor is the hand. There is one hand.
func (p program) isHand() bool { return p[0].op == advance }

// scenario is a few actors, and the state before they begin.
type scenario struct {
	before      before
	actors      []program
	preemptions int
	sleep       time.Duration // the wheel's MaxSleep
}

func (s *scenario) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s", s.before.name)
	for i, p := range s.actors {
		fmt.Fprintf(&b, "; actor %d: %v", i+1, p)
	}
	return b.String()
}

// explore runs the scenario in every interleaving.
func (s *scenario) explore(newWheel NewWheel, preemptions int) (r sched.Result) {
	defer func() {
		if v := recover(); v != nil {
			r.Failure = fmt.Errorf("panic before or after the actors: %v", v)
		}
	}()
	var w *world
	var from model
	begun := 0
	calls := make([]call, 0, 24)
	setup := func() []func() {
		w = newWorld(newWheel, s.sleep, calls)
		from = model{lag: new(lags), sleep: s.sleep - tick}
		for _, step := range s.before.steps {
			from.prepare(w, step)
		}
		begun = len(w.calls)
		var actors []func()
		for _, p := range s.actors {
			actors = append(actors, func() {
				for _, step := range p {
					w.do(step)
				}
			})
		}
		return actors
	}
	return sched.Explore(preemptions, setup, func() error {
		w.next() // notes a tick that was just published
		h := history{calls: w.calls[begun:], last: w.now}
		var err error
		if h.ending, err = w.end(); err != nil {
			return fmt.Errorf("%w\n%v", err, &h)
		}
		from.lag.note(w.wheel)
		if !h.isLinear(from) {
			return fmt.Errorf("no order of the calls explains this:\n%v", &h)
		}
		return nil
	})
}

// note notes how late each tick was left.
func (l *lags) note(w Wheel) {
	for tick := range min(w.Tick()+1, uint64(len(l))) {
		l[tick] = w.Lag(tick)
	}
}

// prepare makes a step before the actors begin, in the world and in the model.
func (m *model) prepare(w *world, s step) {
	begun := len(w.calls)
	w.do(s)
	m.lag.note(w.wheel)
	for n := len(w.calls) - 1; n >= begun; n-- { // a publication comes before the rest of its call
		c := &w.calls[n]
		for part := range c.parts() {
			if !m.apply(c, part, 0) {
				panic(fmt.Sprintf("without actors, %v fails", s))
			}
		}
	}
}

// combine returns all scenarios with so many of the programs, the same one more than once
// included, from each of the states.
func combine(befores []before, programs []program, actors, preemptions int) (all []*scenario) {
	for _, b := range befores {
		var more func(from int, chosen []program)
		more = func(from int, chosen []program) {
			if len(chosen) == actors {
				all = append(all, &scenario{b, slices.Clone(chosen), preemptions, tick})
				return
			}
			for i := from; i < len(programs); i++ {
				p, next := programs[i], i
				if p.isHand() && slices.ContainsFunc(chosen, program.isHand) {
					continue
				}
				more(next, append(chosen, p))
			}
		}
		more(0, nil)
	}
	return all
}
