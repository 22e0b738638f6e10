package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/heartwheel-go/heartwheel/tools/internal/gotest"
)

// turn is the time limit for the tests of a package. After that another one is picked.
const turn = 5 * time.Minute

// night runs tests at random.
type night struct {
	*runner
	file string
	runs map[string]record // by test
}

// record is what is remembered of a test.
type record struct {
	Runs   int           `json:"runs"`
	Took   time.Duration `json:"took"` // of one run, in nanoseconds
	Failed string        `json:"failed,omitempty"`
	Skip   string        `json:"skip,omitempty"` // why it does not run here
}

// run runs tests until the time is over. It picks a package at random among those with the fewest runs of a test, and
// its tests with few runs.
func (n *night) run(ctx context.Context, patterns []string, long time.Duration) error {
	if err := n.remember(); err != nil {
		return err
	}
	byPackage, total, err := listTests(patterns)
	if err != nil {
		return err
	}
	fmt.Printf("%s in %s, for %v\n", plural(total, "test"), plural(len(byPackage), "package"), long)
	failed, ran := map[string]bool{}, 0
	for left := long; left > 0 && ctx.Err() == nil; {
		tests := n.pick(byPackage)
		for _, t := range tests {
			n.build(binary{t.Package, t.tags})
		}
		begun := time.Now() // only tests count
		for t, one := range n.all(ctx, tests, min(turn, left)) {
			ran += one.runs
			n.runs[t.String()] = record{n.runs[t.String()].Runs + one.runs, one.took, one.failed, one.skip}
			if one.failed != "" {
				failed[t.String()] = true
				fmt.Printf("FAIL  %s: %s\n", t, one.failed)
			}
		}
		left -= time.Since(begun)
		fmt.Printf("%s: %s of it in %v\n", tests[0].Name, plural(len(tests), "test"), time.Since(begun).Round(time.Second))
		n.forget(tests)
		if err := n.save(); err != nil {
			return err
		}
	}
	few := 0
	for _, tests := range byPackage {
		for _, t := range tests {
			if rec := n.runs[t.String()]; rec.Runs < n.times && rec.Skip == "" {
				few++
			}
		}
	}
	fmt.Printf("%d runs; %d of %s ran less than %d times so far\n", ran, few, plural(total, "test"), n.times)
	for _, name := range slices.Sorted(maps.Keys(failed)) {
		fmt.Printf("FAIL  %s\n", name)
	}
	return failure(len(failed))
}

// pick returns tests of a package, picked at random among those with the fewest runs of a test: all that lack runs until
// the next multiple of what each test must have.
func (n *night) pick(byPackage map[string][]test) []test {
	// A test that never ran here, since a program is missing, has as many runs as it can get.
	runs := func(t test) int {
		if rec := n.runs[t.String()]; rec.Skip == "" {
			return rec.Runs / n.times
		}
		return 1 << 30
	}
	var best []string
	least := 1 << 30
	for _, name := range slices.Sorted(maps.Keys(byPackage)) {
		fewest := runs(slices.MinFunc(byPackage[name], func(a, b test) int { return runs(a) - runs(b) }))
		if fewest < least {
			best, least = nil, fewest
		}
		if fewest == least {
			best = append(best, name)
		}
	}
	name := best[rand.IntN(len(best))]
	return slices.DeleteFunc(slices.Clone(byPackage[name]), func(t test) bool { return runs(t) > least })
}

// forget removes the binaries of tests: those of all packages are large.
func (n *night) forget(tests []test) {
	for _, t := range tests {
		b := binary{t.Package, t.tags}
		_ = os.Remove(n.binaries[b].file)
		delete(n.binaries, b)
	}
}

func (n *night) remember() error {
	text, err := os.ReadFile(n.file)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err == nil {
		err = json.Unmarshal(text, &n.runs)
	}
	if err != nil {
		return fmt.Errorf("reading %s: %w", n.file, err)
	}
	return nil
}

func (n *night) save() error {
	text, err := json.MarshalIndent(n.runs, "", "\t")
	if err != nil {
		return err
	}
	return os.WriteFile(n.file, text, 0o600)
}

// listTests returns the tests of packages that build here, by the packages' names.
func listTests(patterns []string) (map[string][]test, int, error) {
	pkgs, err := gotest.List(patterns, strings.TrimPrefix(strings.Join(extras, ","), ","))
	if err != nil {
		return nil, 0, err
	}
	byPackage, total := map[string][]test{}, 0
	for _, pkg := range pkgs {
		all, err := declarations(pkg.Dir)
		if err != nil {
			return nil, 0, err
		}
		for _, d := range all {
			if d.isTest && d.tags != elsewhere {
				byPackage[pkg.Name] = append(byPackage[pkg.Name], test{pkg, d.names[0], d.tags})
				total++
			}
		}
	}
	if total == 0 {
		return nil, 0, fmt.Errorf("no tests in %s", strings.Join(patterns, " "))
	}
	return byPackage, total, nil
}
