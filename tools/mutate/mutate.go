package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/heartwheel-go/heartwheel/tools/internal/command"
	"github.com/heartwheel-go/heartwheel/tools/internal/gotest"
)

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
	by   []string // the tests that failed
	once bool     // they failed, and passed when they ran once more
	err  error
}

// mutate tests all mutants of a package.
func (b *bench) mutate(ctx context.Context, p gotest.Package, tests []gotest.Package, only []string, jobs int) ([]result, error) {
	found, err := b.mutants(p, only)
	if err != nil {
		return nil, err
	}
	fmt.Printf("mutate: %s has %d mutants\n", p.Name, len(found))
	var suites []suite
	for _, t := range tests {
		s, err := b.suite(ctx, t, p, jobs)
		if err != nil {
			return nil, err
		}
		var all time.Duration
		for _, t := range s.tests {
			all += t.took
		}
		fmt.Printf("        %d tests of %s take %.1fs, one by one\n", len(s.tests), t.Name, all.Seconds())
		suites = append(suites, s)
	}
	results := make([]result, len(found))
	each(jobs, len(found), func(i int) {
		results[i] = b.meet(ctx, found[i], suites)
		results[i].pkg = p.Name
		if results[i].err == nil {
			fmt.Println(results[i])
		}
	})
	done := results[:0]
	for _, r := range results {
		if r.err == nil {
			done = append(done, r)
		} else {
			err = r.err
		}
	}
	return done, err
}

func (b *bench) mutants(p gotest.Package, only []string) (found []mutant, err error) {
	list, err := command.Output(p.Dir, nil, gotest.GoCommand(), "list", "-f", `{{join .GoFiles "\n"}}`, ".")
	if err != nil {
		return nil, err
	}
	for _, name := range strings.Fields(list) {
		if len(only) > 0 && !slices.ContainsFunc(only, func(part string) bool { return strings.Contains(name, part) }) {
			continue
		}
		file := filepath.Join(p.Dir, name)
		text, err := os.ReadFile(file)
		if err != nil {
			return nil, err
		}
		more, err := mutants(file, text)
		if err != nil {
			return nil, err
		}
		found = append(found, more...)
	}
	return found, nil
}

// meet has a mutant meet the tests that reach it.
func (b *bench) meet(ctx context.Context, m mutant, suites []suite) result {
	r := result{mutant: m, fate: notReached}
	for _, s := range suites {
		tests := s.reach(m)
		if len(tests) == 0 {
			continue
		}
		if r.fate == notReached {
			r.fate = lived
		}
		b.run(ctx, &r, s, tests)
		if r.fate != lived || r.err != nil {
			break
		}
	}
	return r
}

// run runs some tests of a suite with a mutant.
func (b *bench) run(ctx context.Context, r *result, s suite, tests []test) {
	text, err := os.ReadFile(r.file)
	if err != nil {
		r.err = err
		return
	}
	dir, err := os.MkdirTemp(b.dir, "")
	if err != nil {
		r.err = err
		return
	}
	o, file := gotest.Overlay{}, filepath.Join(dir, "overlay.json")
	if r.err = errors.Join(o.Put(dir, r.file, r.apply(text)), o.Write(file)); r.err != nil {
		return
	}
	binary, err := b.build(s.Package, "-overlay", file)
	defer os.Remove(binary)
	if ctx.Err() != nil {
		r.err = errors.New("interrupted")
		return
	}
	if err != nil {
		r.fate = notCompiled
		return
	}
	for _, group := range groups(tests) {
		var names []string
		timeout := 10 * time.Second
		for _, t := range group {
			names = append(names, t.name)
			timeout += 5 * t.took
		}
		failed, err := b.start(ctx, s.Package, binary, names, timeout)
		if err == nil && failed != nil && failed[0] != gotest.TimedOut {
			r.by, r.once = failed, true
			if again := topLevel(failed); again != nil {
				names = again
			}
			failed, err = b.start(ctx, s.Package, binary, names, timeout)
		}
		switch {
		case err != nil:
			r.err = err
			return
		case failed != nil:
			r.fate, r.by, r.once = killed, failed, false
			if failed[0] == gotest.TimedOut {
				r.fate = timedOut
			}
			return
		}
	}
}

// groups puts tests that take about as long into a run.
func groups(tests []test) (all [][]test) {
	for _, most := range []time.Duration{200 * time.Millisecond, 2 * time.Second, time.Hour} {
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

// topLevel are the tests among what failed, without subtests.
func topLevel(failed []string) (names []string) {
	for _, what := range failed {
		name, _, _ := strings.Cut(what, "/")
		isTest := strings.HasPrefix(name, "Test") || strings.HasPrefix(name, "Fuzz") || strings.HasPrefix(name, "Example")
		if isTest && !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	return names
}
