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

// The busy loops, and the processes with tests that run at the same time.
const (
	busyLoops = 2
	lanes     = 2
)

// short is the time of a test up to which it runs together with others of its package.
const short = 200 * time.Millisecond

// all runs each test as often as it must, half of the runs beside busy loops. If the time is too short for that, the
// longest tests run less often.
func (r *runner) all(ctx context.Context, tests []test, long time.Duration) map[test]*result {
	end := time.Now().Add(long)
	results := make(map[test]*result, len(tests))
	for _, t := range tests {
		results[t] = &result{}
	}
	run := func(group []test, count int) {
		for t, one := range r.repeat(ctx, group, count, sum(group, results)) {
			results[t].add(one)
		}
	}
	inLanes(groups(tests, func(test) bool { return true }), false, func(group []test) { run(group, 1) })
	for _, busy := range []bool{false, true} {
		rest := slices.DeleteFunc(slices.Clone(tests), func(t test) bool { return results[t].runs == 0 || results[t].failed != "" })
		all := groups(rest, func(t test) bool { return results[t].took <= short })
		slices.SortFunc(all, func(a, b []test) int { return cmp.Compare(sum(a, results), sum(b, results)) })
		until := end
		if !busy { // half of the time
			until = time.Now().Add(time.Until(end) / 2)
		}
		var begun atomic.Int64
		inLanes(all, busy, func(group []test) {
			left := len(all) - int(begun.Add(1)) + 1
			share := time.Until(until) * lanes / time.Duration(left)
			if count := counts(r.times/2, sum(group, results), share); count > 0 && ctx.Err() == nil {
				run(group, count)
			}
		})
	}
	return results
}

// sum returns the time of one run of all tests in a group.
func sum(group []test, results map[test]*result) (took time.Duration) {
	for _, t := range group {
		took += results[t].took
	}
	return took
}

// groups returns the tests in groups: those of a package that may run together, and each of the others.
func groups(tests []test, together func(test) bool) (all [][]test) {
	at := map[binary]int{}
	for _, t := range tests {
		b := binary{t.Package, t.tags}
		i, ok := at[b]
		switch {
		case !together(t):
			all = append(all, []test{t})
		case ok:
			all[i] = append(all[i], t)
		default:
			at[b] = len(all)
			all = append(all, []test{t})
		}
	}
	return all
}

// counts returns how often to run tests on each of the processors' values: for the runs wanted, or as the time
// allows.
func counts(runs int, took, share time.Duration) int {
	return max(0, min((runs+kinds-1)/kinds, int(share/max(took, 1)/kinds)))
}

// inLanes calls do for each group of tests, some at the same time. If busy is true, it does so beside busy loops.
func inLanes(all [][]test, busy bool, do func([]test)) {
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
	next := make(chan []test)
	for range lanes {
		running.Go(func() {
			for group := range next {
				do(group)
			}
		})
	}
	for _, group := range all {
		next <- group
	}
	close(next)
	running.Wait()
	over.Store(true)
	loops.Wait()
}
