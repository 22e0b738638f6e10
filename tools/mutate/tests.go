package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/tools/cover"

	"github.com/heartwheel-go/heartwheel/tools/internal/command"
	"github.com/heartwheel-go/heartwheel/tools/internal/gotest"
)

// bench builds tests and runs them.
type bench struct {
	dir   string // temporary
	with  string // scripts/with
	most  time.Duration
	files atomic.Int64
}

// test is a test of a package, as it is without mutants.
type test struct {
	name   string
	took   time.Duration
	blocks map[string][]cover.ProfileBlock // of the mutated package, by the name of a file without its folder
}

// suite is a package with its tests, the quickest first.
type suite struct {
	gotest.Package
	tests []test
}

func newBench(most time.Duration) (*bench, error) {
	with, err := filepath.Abs("../scripts/with")
	if err != nil {
		return nil, err
	}
	dir, err := os.MkdirTemp("", "mutate-*")
	return &bench{dir: dir, with: with, most: most}, err
}

// file is the name of a new file.
func (b *bench) file(name string) string {
	return filepath.Join(b.dir, fmt.Sprintf("%d-%s", b.files.Add(1), name))
}

// build builds the tests of a package.
func (b *bench) build(p gotest.Package, flags ...string) (binary string, err error) {
	binary = b.file(filepath.Base(p.Dir) + ".test")
	args := slices.Concat([]string{"plain", gotest.GoCommand(), "test", "-c", "-vet=off", "-ldflags=-s -w", "-o", binary}, flags, []string{p.Dir})
	_, err = command.Output(p.Module, nil, b.with, args...)
	return binary, err
}

// start runs tests, and returns the names of failed ones. A mutant may take memory without an end: a run has
// 8 GB of addresses.
func (b *bench) start(ctx context.Context, p gotest.Package, binary string, names []string, timeout time.Duration, flags ...string) (failed []string, err error) {
	run := "-test.run=^(" + strings.Join(names, "|") + ")$"
	args := slices.Concat([]string{"-c", `ulimit -v 8388608; exec "$@"`, "-", binary, run, "-test.v", "-test.failfast", "-test.timeout=" + timeout.String()}, flags)
	within, cancel := context.WithTimeout(ctx, timeout+10*time.Second) // some mutants keep a timeout from being noticed
	defer cancel()
	cmd := exec.CommandContext(within, "sh", args...)
	cmd.Dir = p.Dir
	cmd.WaitDelay = time.Second
	var output bytes.Buffer
	cmd.Stdout, cmd.Stderr = &output, &output
	err = cmd.Run()
	switch {
	case ctx.Err() != nil:
		return nil, errors.New("interrupted")
	case within.Err() != nil:
		return []string{gotest.TimedOut}, nil
	case err != nil:
		return gotest.WhatFailed(output.Bytes(), err), nil
	}
	return nil, nil
}

// suite runs each test of a package alone, and finds what it reaches in the mutated package.
func (b *bench) suite(ctx context.Context, p, mutated gotest.Package, jobs int) (suite, error) {
	s := suite{Package: p}
	path, err := command.Output(mutated.Module, nil, gotest.GoCommand(), "list", mutated.Dir)
	if err != nil {
		return s, err
	}
	binary, err := b.build(p, "-cover", "-covermode=atomic", "-coverpkg="+path)
	if err != nil {
		return s, err
	}
	defer os.Remove(binary)
	list, err := command.Output(p.Dir, nil, binary, "-test.list=^(Test|Fuzz|Example)")
	if err != nil {
		return s, err
	}
	names := strings.Fields(list)
	tests, errs := make([]test, len(names)), make([]error, len(names))
	each(jobs, len(names), func(i int) { tests[i], errs[i] = b.alone(ctx, p, binary, names[i]) })
	if err := ctx.Err(); err != nil {
		return s, errors.New("interrupted")
	}
	for i, t := range tests {
		if errs[i] != nil {
			fmt.Printf("left out: %s %s: %v\n", p.Name, names[i], errs[i])
			continue
		}
		s.tests = append(s.tests, t)
	}
	slices.SortStableFunc(s.tests, func(a, b test) int { return int(a.took - b.took) })
	return s, nil
}

func (b *bench) alone(ctx context.Context, p gotest.Package, binary, name string) (test, error) {
	t := test{name: name, blocks: map[string][]cover.ProfileBlock{}}
	profile := b.file("profile")
	defer os.Remove(profile)
	begun := time.Now()
	failed, err := b.start(ctx, p, binary, []string{name}, b.most, "-test.coverprofile="+profile)
	t.took = time.Since(begun)
	if err != nil {
		return t, err
	}
	if failed != nil {
		return t, fmt.Errorf("without a mutant: %s, after %.1fs", strings.Join(failed, " "), t.took.Seconds())
	}
	profiles, err := cover.ParseProfiles(profile)
	if err != nil {
		return t, err
	}
	for _, f := range profiles {
		t.blocks[filepath.Base(f.FileName)] = f.Blocks
	}
	return t, nil
}

// reach are the tests that run the text of a mutant. The conditions of a switch count to no block of a profile:
// for them, these are the tests that enter the function.
func (s suite) reach(m mutant) (reaching []test) {
	file := filepath.Base(m.file)
	for _, t := range s.tests {
		at := m.place
		if !slices.ContainsFunc(t.blocks[file], func(b cover.ProfileBlock) bool { return contains(b, at) }) {
			at = m.function
		}
		if slices.ContainsFunc(t.blocks[file], func(b cover.ProfileBlock) bool { return b.Count > 0 && contains(b, at) }) {
			reaching = append(reaching, t)
		}
	}
	return reaching
}

func contains(b cover.ProfileBlock, at place) bool {
	return !at.before(place{b.StartLine, b.StartCol}) && at.before(place{b.EndLine, b.EndCol})
}

// each calls a function for all numbers below n, some at a time.
func each(jobs, n int, do func(int)) {
	var next atomic.Int64
	var wg sync.WaitGroup
	for range jobs {
		wg.Go(func() {
			for i := int(next.Add(1)) - 1; i < n; i = int(next.Add(1)) - 1 {
				do(i)
			}
		})
	}
	wg.Wait()
}
