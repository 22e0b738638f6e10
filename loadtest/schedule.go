package main

import (
	"cmp"
	"math"
	"math/rand/v2"
	"slices"
	"time"
)

// schedule is the times of each connection's heartbeats: once per interval, at a random phase,
// independent of the order of opening.
type schedule struct {
	start    time.Duration
	interval time.Duration
	phase    []time.Duration // of each connection
	order    []int32         // the connections by their phase
	cycle    uint64
	next     int // in order
}

func newSchedule(conns int, start, interval time.Duration, rnd *rand.Rand) *schedule {
	s := &schedule{start: start, interval: interval, phase: make([]time.Duration, conns), order: make([]int32, conns)}
	for i := range s.phase {
		s.phase[i] = time.Duration(rnd.Int64N(int64(interval)))
		s.order[i] = int32(i)
	}
	slices.SortFunc(s.order, func(a, b int32) int { return cmp.Compare(s.phase[a], s.phase[b]) })
	return s
}

// due returns when a connection was to send its heartbeat of a cycle.
func (s *schedule) due(conn int32, cycle uint64) time.Duration {
	return s.start + time.Duration(cycle)*s.interval + s.phase[conn]
}

// peek returns when the next heartbeat is due.
func (s *schedule) peek() time.Duration { return s.due(s.order[s.next], s.cycle) }

// pop returns the connection and the cycle of the next heartbeat and goes on.
func (s *schedule) pop() (conn int32, cycle uint64) {
	conn, cycle = s.order[s.next], s.cycle
	if s.next++; s.next == len(s.order) {
		s.next, s.cycle = 0, s.cycle+1
	}
	return conn, cycle
}

// pickSilent chooses the connections to fall silent: at least one, unless the share is 0.
func pickSilent(conns int, share float64, rnd *rand.Rand) []int {
	return rnd.Perm(conns)[:int(math.Ceil(share*float64(conns)))]
}
