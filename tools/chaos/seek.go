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

// seekFaults runs tests with each fault until one fails, and says how long it took.
func (w *workshop) seekFaults(ctx context.Context, names []string, seed uint64, long time.Duration, plain bool) error {
	for _, name := range names {
		if !slices.ContainsFunc(faults, func(f fault) bool { return f.name == name }) {
			return fmt.Errorf("fault %q, must be one of those in tools/chaos/faults.go", name)
		}
	}
	var missed []string
	for _, f := range faults {
		if len(names) > 0 && !slices.Contains(names, f.name) {
			continue
		}
		found, err := w.seekFault(ctx, f, seed, long, plain)
		if err != nil {
			return fmt.Errorf("%s: %w", f.name, err)
		}
		if !found {
			missed = append(missed, f.name)
		}
	}
	if len(missed) > 0 {
		return fmt.Errorf("not found in %v: %s", long, strings.Join(missed, " "))
	}
	return nil
}

func (w *workshop) seekFault(ctx context.Context, f fault, seed uint64, long time.Duration, plain bool) (found bool, err error) {
	pkgs, err := gotest.List([]string{f.tests}, w.tags)
	if err != nil {
		return false, err
	}
	o := gotest.Overlay{}
	if plain {
		seed = 0
	} else {
		for file, other := range w.library {
			o[file] = other
		}
	}
	if err := f.apply("..", w.dir, o); err != nil {
		return false, err
	}
	t, err := w.build(pkgs[0], o)
	if err != nil {
		return false, err
	}
	w.only = f.run
	begun := time.Now()
	for runs := 1; time.Since(begun) < long; runs++ {
		out, err := w.run(ctx, t, seed, "fault-"+f.name)
		if err != nil {
			return false, err
		}
		if out.failed != nil && !hangs(out.output, w.timeout/2) && strings.HasPrefix(out.failed[0], gotest.TimedOut) {
			return false, fmt.Errorf("the tests take longer than %v, and none hangs: they need a longer -timeout or -time", w.timeout)
		}
		if out.failed != nil {
			if _, err := w.keep("fault-"+f.name, out); err != nil {
				return false, err
			}
			fmt.Printf("found   %-38s %4.0fs  run %d  seed %d  %s\n", f.name, time.Since(begun).Seconds(), runs, seed, strings.Join(out.failed, " "))
			return true, nil
		}
		if !plain {
			seed++
		}
	}
	fmt.Printf("missed  %-38s %4.0fs\n", f.name, time.Since(begun).Seconds())
	return false, nil
}

// apply puts the fault into an overlay. root is the folder of the repository.
func (f fault) apply(root, dir string, o gotest.Overlay) error {
	file, err := filepath.Abs(filepath.Join(root, f.file))
	if err != nil {
		return err
	}
	text, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	if n := strings.Count(string(text), f.from); n != 1 {
		return fmt.Errorf("the text of fault %s stands %d times in %s, must be once: see tools/chaos/faults.go", f.name, n, f.file)
	}
	return o.Put(dir, file, strings.Replace(string(text), f.from, f.to, 1))
}

// hangs reports whether a test, or a subtest, had run for so long when time was over.
func hangs(output []byte, long time.Duration) bool {
	running := regexp.MustCompile(`(?m)^\t\t(Test\S+) \((\S+)\)$`).FindAllStringSubmatch(string(output), -1)
	return slices.ContainsFunc(running, func(one []string) bool {
		took, err := time.ParseDuration(one[2])
		hasSubtest := strings.Contains(string(output), "\t\t"+one[1]+"/")
		return err == nil && took >= long && !hasSubtest
	})
}
