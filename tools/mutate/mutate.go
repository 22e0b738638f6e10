package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/heartwheel-go/heartwheel/tools/internal/gotest"
)

// bench is a place to mutate packages.
type bench struct {
	dir  string        // temporary
	with string        // scripts/with
	most time.Duration // of a test
	jobs int
	only []string // parts of names of files

	run   *regexp.Regexp
	again map[string]bool // the only mutants, or nil
}

// fate is what became of a mutant.
type fate int

const (
	killed fate = iota
	timedOut
	lived
	notReached // by any test
	notCompiled
)

type result struct {
	mutant
	pkg  string
	fate fate
	by   []string // failed tests
	once bool     // they failed, and passed when they ran once more
	err  error
}

func newBench(most time.Duration, jobs int, only []string) (*bench, error) {
	with, err := filepath.Abs("../scripts/with")
	if err != nil {
		return nil, err
	}
	dir, err := os.MkdirTemp("", "mutate-*")
	return &bench{dir: dir, with: with, most: most, jobs: jobs, only: only}, err
}

// mutate has all mutants of a package meet the tests of some.
func (b *bench) mutate(ctx context.Context, p gotest.Package, tests []gotest.Package) (done []result, err error) {
	of, err := load(p)
	if err != nil {
		return nil, err
	}
	var suites []suite
	for _, t := range tests {
		s, err := b.build(t, of)
		if err == nil {
			err = s.measure(ctx, len(of.mutants), b)
		}
		if err != nil {
			return nil, err
		}
		var all time.Duration
		for _, t := range s.tests {
			all += t.took
		}
		fmt.Printf("%s: %d changes; %d tests of %s reach them, and take %.1fs one by one\n", p.Name, len(of.mutants), len(s.tests), t.Name, all.Seconds())
		suites = append(suites, s)
	}
	chosen := slices.DeleteFunc(slices.Clone(of.mutants), func(m mutant) bool { return !b.chooses(p, m) })
	results := make([]result, len(chosen))
	each(b.jobs, len(chosen), func(i int) {
		results[i] = meet(ctx, chosen[i], suites)
		results[i].pkg = p.Name
		if results[i].err == nil {
			fmt.Println(results[i])
		}
	})
	for _, r := range results {
		if r.err == nil {
			done = append(done, r)
		} else {
			err = fmt.Errorf("%s: %w", r.change(), r.err)
		}
	}
	return done, err
}

func (b *bench) chooses(p gotest.Package, m mutant) bool {
	inFile := func(part string) bool { return strings.Contains(filepath.Base(m.file), part) }
	return (len(b.only) == 0 || slices.ContainsFunc(b.only, inFile)) && (b.again == nil || b.again[result{mutant: m, pkg: p.Name}.change()])
}

// meet has a mutant meet its tests, until one kills it.
func meet(ctx context.Context, m mutant, suites []suite) result {
	r := result{mutant: m, fate: notReached}
	if m.fails {
		r.fate = notCompiled
		return r
	}
	for _, s := range suites {
		tests := slices.DeleteFunc(slices.Clone(s.tests), func(t test) bool { return t.reaches[m.id] == 0 })
		for _, group := range groups(tests) {
			if r.fight(ctx, s, group); r.fate != lived || r.err != nil {
				return r
			}
		}
	}
	return r
}

// fight runs some tests with the mutant. A failed one runs once more, and slow ones have three times as long then: a
// busy machine must kill nobody.
func (r *result) fight(ctx context.Context, s suite, tests []test) {
	r.fate = lived
	var names []string
	timeout := 5 * time.Second
	for _, t := range tests {
		names = append(names, t.name)
		timeout += 4 * t.took
	}
	failed, err := s.start(ctx, r.id, "", names, timeout)
	if err == nil && failed != nil {
		r.by, r.once = failed, true
		if again := gotest.TopLevel(failed); again != nil && failed[0] != gotest.TimedOut {
			names = again
		}
		failed, err = s.start(ctx, r.id, "", names, 3*timeout)
	}
	switch {
	case err != nil:
		r.err = err
	case failed == nil:
	case failed[0] == gotest.TimedOut:
		r.fate, r.by, r.once = timedOut, failed, false
	default:
		r.fate, r.by, r.once = killed, failed, false
	}
}

// groups puts tests of about the same duration into one run.
func groups(tests []test) (all [][]test) {
	for _, most := range []time.Duration{200 * time.Millisecond, time.Second, 5 * time.Second, time.Hour} {
		n := 0
		for n < len(tests) && tests[n].took <= most {
			n++
		}
		if n > 0 {
			all = append(all, tests[:n])
		}
		tests = tests[n:]
	}
	return all
}
