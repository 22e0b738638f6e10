package explore

import (
	"encoding/json"
	"flag"
	"fmt"
	"math"
	"os"
	"slices"
	"strings"
	"time"
)

// Report is what [Main] writes, in JSON.
type Report struct {
	Classes []Class
	Failure *Failure // nil if there is none

	newWheel NewWheel
}

// Class is what was explored of one class of scenarios.
type Class struct {
	Name      string
	Scenarios int
	Runs, Cut int // see sched.Result
	Took      time.Duration
}

// String is a line of a table: interleavings, those left out, and the rest in words.
func (c Class) String() string {
	return fmt.Sprintf("%10d %10d  in %6d scenarios of %s, %v", c.Runs, c.Cut, c.Scenarios, c.Name, c.Took.Round(time.Millisecond))
}

// Failure is an interleaving that breaks a promise of the wheel.
type Failure struct {
	Class, Scenario, Error, Schedule string
	Preemptions                      int // the least number of them
}

func (f *Failure) String() string {
	return fmt.Sprintf("%s, at least %d preemptions; %s\n%s\n%s", f.Class, f.Preemptions, f.Scenario, f.Error, f.Schedule)
}

// Main explores one of some copies of the wheel, as the flags say, and writes a report.
func Main(copies map[string]NewWheel) {
	name := flag.String("copy", "", "the copy to explore")
	full := flag.Bool("full", false, "the full depth")
	only := flag.String("only", "", "explore only classes with this in their name")
	hunt := flag.Bool("hunt", false, "find the failure with the fewest preemptions")
	shard := flag.Int("shard", 0, "explore only this shard")
	shards := flag.Int("shards", 1, "of so many")
	flag.Parse()
	newWheel, ok := copies[*name]
	if !ok {
		fmt.Fprintln(os.Stderr, "no copy has the name", *name)
		os.Exit(2)
	}
	all := slices.DeleteFunc(classes(*full), func(c class) bool { return !strings.Contains(c.name, *only) })
	for i := range all {
		all[i].scenarios = part(all[i].scenarios, *shard, *shards)
	}
	r := Report{newWheel: newWheel}
	if *hunt {
		for preemptions := 0; preemptions <= 3 && r.Failure == nil; preemptions++ {
			r.explore(all, preemptions)
		}
	} else {
		r.explore(all, unlimited)
	}
	if err := json.NewEncoder(os.Stdout).Encode(r); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// part returns a shard of all scenarios.
func part(all []*scenario, shard, shards int) (mine []*scenario) {
	for i := shard; i < len(all); i += shards {
		mine = append(mine, all[i])
	}
	return mine
}

// explore explores scenarios up to the first failure, each with as many preemptions as it asks
// for, and at most so many.
func (r *Report) explore(classes []class, preemptions int) {
	for _, c := range classes {
		if len(c.scenarios) == 0 {
			continue
		}
		begun, sum := time.Now(), Class{Name: c.name}
		for _, s := range c.scenarios {
			if r.Failure != nil {
				break
			}
			most := min(preemptions, s.preemptions)
			found := s.explore(r.newWheel, most)
			sum.Scenarios++
			sum.Runs += found.Runs
			sum.Cut += found.Cut
			if found.Failure != nil {
				r.Failure = &Failure{c.name, s.String(), found.Failure.Error(), found.Schedule, most}
			}
		}
		sum.Took = time.Since(begun)
		r.Classes = append(r.Classes, sum)
	}
}

// unlimited preemptions are no limit.
const unlimited = math.MaxInt32

type class struct {
	name      string
	scenarios []*scenario
}

// programs makes a program for timer A of each list of ops.
func programs(lists ...[]op) (all []program) {
	for _, list := range lists {
		all = append(all, steps(list...))
	}
	return all
}

// classes returns what is explored. Not full, it takes some seconds.
func classes(full bool) []class {
	few := programs([]op{touch}, []op{moveShort}, []op{takeUp, expire}, []op{rearmLater}, []op{handOver}, []op{advance})
	some := slices.Concat(few, programs([]op{moveLong}, []op{delayShort}, []op{delayLong}, []op{remove}, []op{touchAtPast},
		[]op{advance, advance}))
	more := slices.Concat(some, programs([]op{look}, []op{touch, look}, []op{look, expireSeen}, []op{look, rearmSeen}, []op{touch, handOver}, []op{touched}, []op{handOverIdle}))
	all := slices.Concat(more, programs([]op{expire}, []op{rearmPast}, []op{touchAtNow}, []op{value},
		[]op{takeUp}, []op{start}, []op{touch, touch}, []op{start, touch}, []op{takeUp, rearmLater}, []op{takeUp, touchAtNow},
		[]op{advance, takeUp, expire}, []op{now}, []op{now, touch}, []op{pause, touch}, []op{seeAll}))
	withTime := slices.Concat(few, programs([]op{now}, []op{now, touch}, []op{pause, touch}, []op{pause, now, touch}))
	asleep := programs([]op{touch}, []op{now, touch}, []op{delayShort}, []op{rearmLater}, []op{advance})
	keys := programs([]op{moveKey}, []op{moveLong}, []op{advance})
	moreKeys := slices.Concat(keys, programs([]op{remove}, []op{takeUp, expire}, []op{advance, advance}))
	withAll := append(onTwo(), steps(seeAll))
	if !full {
		return []class{
			{"two actors", combine(befores, more, 2, 2)},
			{"three actors", combine(mostBefores, few, 3, 1)},
			{"a timer with a key", combine(someBefores, keys, 3, 1)},
			{"a sleeping hand", sleeping(combine(befores, asleep, 2, 2))},
			{"two timers in a slot", combine(neighbours, withAll, 2, 2)},
		}
	}
	return []class{
		{"two actors", combine(befores, all, 2, unlimited)},
		{"three actors", combine(mostBefores, some, 3, 3)},
		{"a timer with a key", slices.Concat(combine(befores, moreKeys, 2, unlimited), combine(someBefores, moreKeys, 3, 3))},
		{"a sleeping hand", sleeping(slices.Concat(combine(befores, withTime, 2, unlimited), combine(mostBefores, asleep, 3, 3)))},
		{"two timers in a slot", slices.Concat(combine(neighbours, withAll, 2, unlimited), combine(someNeighbours, onTwo(), 3, 3))},
	}
}

// sleeping makes the hand of all scenarios sleep for two ticks at most.
func sleeping(all []*scenario) []*scenario {
	for _, s := range all {
		s.sleep = 2 * tick
	}
	return all
}

// mostBefores are the states for three actors. The others are much like one of these.
var mostBefores = slices.DeleteFunc(slices.Clone(befores), func(b before) bool {
	return slices.Contains([]string{"looked at", "handed over early", "rearmed, to a deadline in the past", "touched in the past"}, b.name)
})

// someBefores are the states for three actors with MoveTimer.
var someBefores = slices.DeleteFunc(slices.Clone(befores), func(b before) bool {
	return !slices.Contains([]string{"just filed", "pending", "moved far", "in the backlog", "undecided", "removed"}, b.name)
})

// neighbours are states with both timers in the same place.
var neighbours = []before{
	{"both in the slot of the next tick", both(rest, rest, start, rest, rest)},
	{"both undecided", both(rest, start, rest, rest, rest, takeUp)},
	{"both held back in the last pass", both(rest, start, advance, rest, advance)},
	{"both filed far away", both(rest, rest, start, rest, rest, moveLong)},
	{"both touched, and to be filed again", both(rest, rest, start, rest, rest, touch)},
	{"both in the backlog", both(rest, start, rest, rest, rest)},
}

// someNeighbours are the states for three actors.
var someNeighbours = neighbours[:2]

// both makes a list of steps on both timers.
func both(list ...op) (s []step) {
	for _, op := range list {
		s = append(s, step{op, 0})
		if op < advance {
			s = append(s, step{op, 1})
		}
	}
	return s
}

// onTwo are programs for one of two timers, with fewer of them for the second: the timers are
// alike.
func onTwo() []program {
	all := programs([]op{touch}, []op{moveShort}, []op{remove}, []op{moveLong}, []op{rearmLater}, []op{handOver},
		[]op{advance}, []op{advance, advance})
	for _, op := range []op{touch, moveShort, remove} {
		all = append(all, program{{op, 1}})
	}
	return append(all, program{{takeUp, 0}, {expire, 0}}, program{{takeUp, 0}, {expire, 1}})
}
