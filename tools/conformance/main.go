// Command conformance runs the tests of other people on guarded connections, and on the same connections
// without a guard, the control.
//
//	conformance [suite ...]
//
// A suite passes if both have the same results, but for the meant differences. Their list, with a
// reason for each, is in suites.go. The suites are modules in their own versions, see go.mod. The tests in them
// that know nothing of a guard are copied from the module cache into a temporary folder, and changed there.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := conform(ctx, os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "conformance:", err)
		os.Exit(1) //nolint:gocritic // nothing is left to stop
	}
}

func conform(ctx context.Context, names []string) error {
	chosen, err := choose(names)
	if err != nil {
		return err
	}
	root, err := moduleRoot(ctx)
	if err != nil {
		return err
	}
	var failed []string
	fmt.Printf("%-10s %-14s %-14s %-6s %s\n", "suite", "guarded", "control", "meant", "time")
	for _, s := range chosen {
		begun := time.Now()
		t, err := both(ctx, s, root)
		if err != nil {
			return fmt.Errorf("%s: %w", s.name, err)
		}
		fmt.Printf("%-10s %-14v %-14v %-6d %v\n", s.name, t.guarded, t.control, t.meant, time.Since(begun).Round(time.Second))
		for _, e := range t.errors {
			fmt.Println(e)
		}
		if len(t.errors) > 0 {
			failed = append(failed, s.name)
		}
	}
	if len(failed) > 0 {
		return errors.New("not as in the control: " + strings.Join(failed, ", "))
	}
	return nil
}

// choose returns the suites of these names, or all.
func choose(names []string) ([]suite, error) {
	if len(names) == 0 {
		return suites, nil
	}
	var chosen []suite
	for _, name := range names {
		i := slices.IndexFunc(suites, func(s suite) bool { return s.name == name })
		if i < 0 {
			var known []string
			for _, s := range suites {
				known = append(known, s.name)
			}
			return nil, fmt.Errorf("no suite %q, must be one of %s", name, strings.Join(known, ", "))
		}
		chosen = append(chosen, suites[i])
	}
	return chosen, nil
}

// moduleRoot returns the folder of this module.
func moduleRoot(ctx context.Context) (string, error) {
	out, err := exec.CommandContext(ctx, "go", "env", "GOMOD").Output()
	if err != nil {
		return "", fmt.Errorf("go env GOMOD, in the folder of the command: %w", err)
	}
	return filepath.Dir(strings.TrimSpace(string(out))), nil
}

// both runs the tests of a suite, guarded and as a control.
func both(ctx context.Context, s suite, root string) (table, error) {
	dir := root
	if s.module != "" {
		temp, err := os.MkdirTemp("", "conformance-"+s.name+"-")
		if err != nil {
			return table{}, err
		}
		defer os.RemoveAll(temp)
		if dir, err = copied(ctx, s, root, temp); err != nil {
			return table{}, err
		}
		if err := os.Setenv("GOWORK", filepath.Join(temp, "go.work")); err != nil {
			return table{}, err
		}
		defer os.Unsetenv("GOWORK")
	}
	control, err := run(ctx, dir, s, true)
	if err != nil {
		return table{}, fmt.Errorf("control: %w", err)
	}
	guarded, err := run(ctx, dir, s, false)
	if err != nil {
		return table{}, err
	}
	return compare(control, guarded, s.meant), nil
}
