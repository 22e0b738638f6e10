package main

import (
	"cmp"
	"context"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// The busy loops, and the tests that run at the same time.
const (
	busyLoops = 2
	lanes     = 2
)

// all runs each test as often as it must, half of the runs beside busy loops. If the time is too short for that, the
// longest tests run less often.
func (r *runner) all(ctx context.Context, tests []test, long time.Duration) map[test]*result {
	end := time.Now().Add(long)
	results := make(map[test]*result, len(tests))
	for _, t := range tests {
		results[t] = &result{}
	}
	inLanes(tests, false, func(t test) { results[t].add(r.repeat(ctx, t, 1, 0)) })
	for _, busy := range []bool{false, true} {
		rest := slices.DeleteFunc(slices.Clone(tests), func(t test) bool { return results[t].runs == 0 || results[t].failed != "" })
		slices.SortFunc(rest, func(a, b test) int { return cmp.Compare(results[a].took, results[b].took) })
		until := end
		if !busy { // half of the time
			until = time.Now().Add(time.Until(end) / 2)
		}
		var begun atomic.Int64
		inLanes(rest, busy, func(t test) {
			left := len(rest) - int(begun.Add(1)) + 1
			share := time.Until(until) * lanes / time.Duration(left)
			if count := counts(r.times/2, results[t].took, share); count > 0 && ctx.Err() == nil {
				results[t].add(r.repeat(ctx, t, count, results[t].took))
			}
		})
	}
	return results
}

// counts returns how often to run a test on each of the processors' values: for the runs wanted, or as the time
// allows.
func counts(runs int, took, share time.Duration) int {
	return max(0, min((runs+kinds-1)/kinds, int(share/max(took, 1)/kinds)))
}

// inLanes calls do for each test, some at the same time. If busy is true, it does so beside busy loops.
func inLanes(tests []test, busy bool, do func(test)) {
	var over atomic.Bool
	var loops, running sync.WaitGroup
	if busy {
		defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(runtime.NumCPU() + busyLoops))
		for range busyLoops {
			loops.Go(func() {
				for n := 0; !over.Load(); {
					n++
				}
			})
		}
	}
	next := make(chan test)
	for range lanes {
		running.Go(func() {
			for t := range next {
				do(t)
			}
		})
	}
	for _, t := range tests {
		next <- t
	}
	close(next)
	running.Wait()
	over.Store(true)
	loops.Wait()
}
