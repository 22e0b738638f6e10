package sched

import (
	"fmt"
	"strings"
)

// Result is what [Explore] has seen.
type Result struct {
	Runs     int // interleavings run and checked
	Cut      int // runs not checked: the rest of an earlier run, begun in another order
	Deepest  int // choices in one run
	Failure  error
	Schedule string // of the failure, one operation a line
}

// Explore runs the actors of setup in every interleaving with at most so many preemptions: a
// preemption takes the turn from an actor with a next step. setup is called before each
// run, check after each. Explore ends at the first failure.
//
// Two interleavings differ if an operation sees another order of the operations on its own
// variable, or if a call sees other calls ended. Explore checks one of all that do not
// differ.
func Explore(preemptions int, setup func() []func(), check func() error) Result {
	s := &search{preemptions: preemptions, seen: map[uint64]int{}}
	return s.explore(setup, check)
}

func (s *search) explore(setup func() []func(), check func() error) (r Result) {
	actors := crew(setup())
	defer dismiss(actors)
	for {
		s.cut = false
		err := run(actors, s, nil)
		if err == nil && !s.cut {
			err = check()
		}
		if s.cut {
			r.Cut++
		} else {
			r.Runs++
		}
		r.Deepest = max(r.Deepest, len(s.path))
		if err != nil {
			r.Failure, r.Schedule = err, s.replay(setup())
			return r
		}
		if !s.next() {
			return r
		}
		for i, task := range setup() {
			actors[i].begin(task)
		}
	}
}

// crew makes the actors for some tasks.
func crew(tasks []func()) (actors []*actor) {
	for i, task := range tasks {
		a := newActor(i)
		a.begin(task)
		actors = append(actors, a)
	}
	return actors
}

// dismiss ends the actors.
func dismiss(actors []*actor) {
	for _, a := range actors {
		a.stop()
	}
}

// search is a depth-first search. It has no copies of states: each run begins anew, and follows
// the path up to its last choice.
type search struct {
	preemptions int
	path        []choice
	cut         bool           // what follows was explored from the same state before
	seen        map[uint64]int // states, and the preemptions left; nil to cut nothing
}

type choice struct {
	options  [8]int8
	n, taken int
}

// choose returns the option of a choice, after depth choices in this run.
func (s *search) choose(depth int, options []int8, state func() uint64, left int) int8 {
	if depth < len(s.path) {
		return s.path[depth].options[s.path[depth].taken]
	}
	if s.cut {
		return options[0]
	}
	if s.seen != nil {
		h := state()
		if before, ok := s.seen[h]; ok && before >= left {
			s.cut = true
			return options[0]
		}
		s.seen[h] = left
	}
	var all [8]int8
	s.path = append(s.path, choice{n: copy(all[:], options), options: all})
	return options[0]
}

// next makes the path of the next run. It reports false after the last run.
func (s *search) next() bool {
	for n := len(s.path); n > 0; n-- {
		c := &s.path[n-1]
		if c.taken++; c.taken < c.n {
			s.path = s.path[:n]
			return true
		}
	}
	s.path = s.path[:0]
	return false
}

// replay runs the path again and returns its operations.
func (s *search) replay(tasks []func()) string {
	actors := crew(tasks)
	defer dismiss(actors)
	var b strings.Builder
	s.cut = true // no new choices
	last := -1
	_ = run(actors, s, func(actor int, what string) { // fails as it did before
		if actor != last {
			fmt.Fprintf(&b, "actor %d\n", actor+1)
			last = actor
		}
		fmt.Fprintf(&b, "  %s\n", what)
	})
	return b.String()
}
