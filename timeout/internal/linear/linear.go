// Package linear checks histories of concurrent calls: is there an order of the calls, each between
// its begin and its end, with just these answers? The search is that of Wing and Gong, "Testing and
// Verifying Concurrent Objects" (1993), with Lowe's memory of states, "Testing for linearizability"
// (2017).
//
// The module in folder porcupine compares it with a checker of other people.
package linear

import "math"

// Call is one call, with its input and its answer. Begin and End are moments of the same clock.
// Begin comes before End.
type Call[In, Out any] struct {
	Begin, End int64
	Input      In
	Answer     Out
}

// Result is what Check found.
type Result int

// What Check can find.
const (
	Unknown    Result = iota // the search took too many steps
	Explained                // some order explains all answers
	Impossible               // no order does
)

// Check looks for an order of the calls. next returns whether a state allows an answer, and the
// state after the call. Check gives up after the given number of steps.
func Check[S comparable, In, Out any](initial S, next func(S, In, Out) (bool, S), calls []Call[In, Out], steps int) Result {
	s := search[S, In, Out]{
		calls: calls, next: next, steps: steps,
		placed: make([]byte, (len(calls)+7)/8), left: len(calls), seen: map[visited[S]]bool{},
	}
	switch {
	case s.explain(initial):
		return Explained
	case s.steps < 0:
		return Unknown
	}
	return Impossible
}

type search[S comparable, In, Out any] struct {
	calls  []Call[In, Out]
	next   func(S, In, Out) (bool, S)
	steps  int
	placed []byte // a bit for each call: it has its place
	left   int    // calls without one
	seen   map[visited[S]]bool
}

// visited is the same place in the search, whatever the way there.
type visited[S comparable] struct {
	placed string
	state  S
}

// explain places the remaining calls.
func (s *search[S, In, Out]) explain(state S) bool {
	if s.left == 0 {
		return true
	}
	here := visited[S]{string(s.placed), state}
	if s.seen[here] {
		return false
	}
	s.seen[here] = true
	end := s.firstEnd()
	for i, c := range s.calls {
		if s.isPlaced(i) || c.Begin > end { // another call had ended before
			continue
		}
		if s.steps--; s.steps < 0 {
			return false
		}
		ok, after := s.next(state, c.Input, c.Answer)
		if !ok {
			continue
		}
		s.flip(i, -1)
		if s.explain(after) {
			return true
		}
		s.flip(i, +1)
	}
	return false
}

// firstEnd returns the first end of a call without a place.
func (s *search[S, In, Out]) firstEnd() int64 {
	first := int64(math.MaxInt64)
	for i, c := range s.calls {
		if !s.isPlaced(i) {
			first = min(first, c.End)
		}
	}
	return first
}

func (s *search[S, In, Out]) isPlaced(i int) bool { return s.placed[i/8]&(1<<(i%8)) != 0 }

func (s *search[S, In, Out]) flip(i, left int) {
	s.placed[i/8] ^= 1 << (i % 8)
	s.left += left
}
