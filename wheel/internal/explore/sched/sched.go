// Package sched runs a few functions, the actors, one step at a time, in every order. A step
// ends before each operation on a [Var]: an atomic, or a mutex. So whatever lies between two
// such operations runs in one piece. A data race on plain memory is not found here; the race
// detector finds those.
//
// One run at a time: the package has one schedule for the whole process.
package sched

import (
	"fmt"
	"iter"
	"math/bits"
	"runtime/debug"
)

// A Var is the scheduler's part of an atomic or of a mutex. Its zero value is ready.
type Var struct {
	name  string // for a trace
	wrote uint64 // hash of the last write
	guard *Mutex // held by all writers; or nil
}

// Name names the variable in traces.
func (v *Var) Name(name string) { v.name = name }

// GuardedBy says that all writers hold a mutex. So a reader that holds it needs no step.
func (v *Var) GuardedBy(m *Mutex) { v.guard = m }

// turn is the schedule of the current run, or nil if nothing is explored: then operations
// happen at once.
var turn *schedule

// schedule is one run of the actors.
type schedule struct {
	actors    []*actor
	current   *actor // nil before the first step
	search    *search
	depth     int    // choices so far
	switches  int    // preemptions so far
	finished  uint64 // a bit for each ended call, eight for each actor
	abandoned bool   // an actor has failed: the others unwind
	trace     func(actor int, what string)
}

type actor struct {
	id      int
	task    func()
	next    func() (struct{}, bool)
	stop    func()
	yield   func(struct{}) bool
	ended   uint64 // calls
	hash    uint64 // of this actor's operations, and of all that they depend on
	waiting *Mutex // or nil
	toWrite bool
	done    bool
	atOnce  bool // the next operation belongs to the step just begun
}

// enabled reports whether the actor has a step.
func (a *actor) enabled() bool {
	return !a.done && (a.waiting == nil || a.waiting.isFree(a.toWrite))
}

// unwind is the panic to end an actor after the failure of another.
type unwind struct{}

// newActor makes an actor. It does one task after the other, and yields with done set after
// each.
func newActor(id int) *actor {
	a := &actor{id: id}
	a.next, a.stop = iter.Pull(func(yield func(struct{}) bool) {
		defer func() {
			v := recover()
			if _, ok := v.(unwind); v != nil && !ok {
				panic(fmt.Sprintf("%v\n%s", v, debug.Stack()))
			}
		}()
		a.yield = yield
		for {
			a.task()
			a.done = true
			if !yield(struct{}{}) {
				return
			}
		}
	})
	return a
}

// begin makes the actor ready for a new run.
func (a *actor) begin(task func()) {
	a.task, a.done, a.waiting, a.atOnce = task, false, nil, true
	a.ended, a.hash = 0, mix(uint64(a.id), 1)
}

// run lets the actors do their tasks once, by the choices of the search. The error is about a
// panic or a deadlock: then the actors are of no more use.
func run(actors []*actor, by *search, trace func(int, string)) error {
	s := &schedule{actors: actors, search: by, trace: trace}
	turn = s
	defer func() { turn = nil }()
	err := s.run()
	if err != nil {
		s.abandoned = true
		for _, a := range actors {
			s.current = a
			a.stop()
		}
	}
	return err
}

func (s *schedule) run() (err error) {
	defer func() {
		if v := recover(); v != nil {
			err = fmt.Errorf("panic: %v", v)
		}
	}()
	for {
		if s.current == nil || !s.current.enabled() {
			if s.current = s.choose(); s.current == nil {
				break
			}
		}
		s.current.next()
	}
	for _, a := range s.actors {
		if !a.done {
			return fmt.Errorf("deadlock: actor %d waits for a mutex", a.id)
		}
	}
	return nil
}

// choose returns the actor with the next step, or nil if there is none.
func (s *schedule) choose() *actor {
	var enabled [8]int8
	n, running := 0, s.current != nil && s.current.enabled()
	if running {
		enabled[0], n = int8(s.current.id), 1
	}
	if !running || s.switches < s.search.preemptions {
		for _, a := range s.actors {
			if a.enabled() && a != s.current {
				enabled[n] = int8(a.id)
				n++
			}
		}
	}
	switch n {
	case 0:
		return nil
	case 1:
		return s.actors[enabled[0]]
	}
	next := s.actors[s.search.choose(s.depth, enabled[:n], func() uint64 { return s.state(running) }, s.search.preemptions-s.switches)]
	s.depth++
	if running && next != s.current {
		s.switches++
	}
	return next
}

// state is a hash of the run so far. Two runs have the same hash if they differ only in the order
// of operations with no influence on each other.
func (s *schedule) state(running bool) uint64 {
	h := uint64(len(s.actors))
	for _, a := range s.actors {
		h = mix(h, a.hash)
	}
	if running {
		h = mix(h, uint64(s.current.id)+1)
	}
	return h
}

// point is the end of a step. It returns in the step of the next operation.
func (s *schedule) point() {
	a := s.current
	if a.atOnce || s.abandoned {
		a.atOnce = false
		return
	}
	if next := s.choose(); next != a {
		s.change(next)
	}
}

// change lets another actor go on, until it is the calling actor's turn again.
func (s *schedule) change(next *actor) {
	a := s.current
	s.current = next
	if !a.yield(struct{}{}) {
		panic(unwind{})
	}
}

// Read is the step of an operation without a change. It comes before the operation.
func (v *Var) Read() {
	if s := turn; s != nil {
		if v.guard == nil || v.guard.owner != s.current {
			s.point()
		}
		v.hasRead()
	}
}

// ReadAtOnce is Read in the step of the operation before it. That operation has to commute with
// the writes of the variable, and with whatever can come between the two: it is the taking of a
// lock, or the beginning of a call.
func (v *Var) ReadAtOnce() {
	if turn != nil {
		v.hasRead()
	}
}

// Write is the step of a change. It comes before the operation.
func (v *Var) Write() {
	if s := turn; s != nil {
		s.point()
		v.hasWritten()
	}
}

// Try is the step of a change under a condition.
func (v *Var) Try(condition func() bool) (wrote bool) {
	if s := turn; s != nil {
		s.point()
		if wrote = condition(); wrote {
			v.hasWritten()
		} else {
			v.hasRead()
		}
		return wrote
	}
	return condition()
}

func (v *Var) hasRead() {
	a := turn.current
	a.hash = mix(a.hash, v.wrote)
}

func (v *Var) hasWritten() {
	a := turn.current
	if v.guard != nil && v.guard.owner != a && !turn.abandoned {
		panic(v.name + " is written without its lock")
	}
	a.hash = mix(a.hash, v.wrote)
	v.wrote = a.hash
}

// Traced reports whether the operations of this run are listed.
func Traced() bool { return turn != nil && turn.trace != nil }

// Trace adds a line to the list. It is for a traced run.
func Trace(line string) { turn.trace(turn.current.id, line) }

// Trace lists an operation. It is for a traced run.
func (v *Var) Trace(what string, args ...any) {
	if v.name != "" {
		Trace("  " + v.name + " " + fmt.Sprintf(what, args...))
	}
}

// Current returns the number of the current step's actor, or -1 if nothing is explored.
func Current() int {
	if turn == nil {
		return -1
	}
	return turn.current.id
}

// Begin is the first step of an actor's call, together with the call's first operation. The call
// knows which calls have ended, and known is a hash of whatever else the check compares.
func Begin(known func() uint64) {
	if s := turn; s != nil {
		s.point()
		a := s.current
		a.atOnce = true
		a.hash = mix(mix(a.hash, s.finished), known())
	}
}

// End says that the actor's call has ended. known is as in Begin.
func End(known func() uint64) {
	if s := turn; s != nil {
		a := s.current
		a.atOnce = false
		s.finished |= 1 << (8*uint64(a.id) + a.ended)
		a.ended++
		a.hash = mix(mix(a.hash, a.ended), known())
	}
}

func mix(a, b uint64) uint64 {
	x := a*0x9E3779B97F4A7C15 + bits.RotateLeft64(b, 31)*0xBF58476D1CE4E5B9 + 0x94D049BB133111EB
	x ^= x >> 32
	x *= 0xD6E8FEB86659FD93
	return x ^ x>>29
}
