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

	"github.com/heartwheel-go/heartwheel/tools/internal/command"
	"github.com/heartwheel-go/heartwheel/tools/internal/gotest"
)

// test is a test of a package, as it is without a mutant.
type test struct {
	name    string
	took    time.Duration
	reaches []byte // by the number of a mutant
}

// suite is a package with its tests, built with all mutants of another, the quickest first.
type suite struct {
	gotest.Package
	binary string
	tests  []test
}

// build builds the tests of a package with all compilable mutants.
func (b *bench) build(p gotest.Package, of *subject) (suite, error) {
	s := suite{Package: p, binary: filepath.Join(b.dir, strings.ReplaceAll(p.Name, "/", "-")+".test")}
	for {
		if err := of.mutate(b.dir); err != nil {
			return s, err
		}
		_, err := command.Output(p.Module, nil, b.with, "plain", gotest.GoCommand(), "test", "-c", "-vet=off",
			"-gcflags=all=-dwarf=false", "-gcflags="+of.loaded.PkgPath+"=-e -dwarf=false", "-overlay", of.overlay, "-o", s.binary, p.Dir)
		if err == nil || !of.learn(err.Error()) {
			return s, err
		}
	}
}

// start runs tests with a mutant, and returns the names of failed ones. A mutant may take memory without an
// end: a run has 8 GB of addresses. An error is a run that could not begin, or was killed: failed tests have the
// status 1 or 2, and a process of theirs may outlive them.
func (s suite) start(ctx context.Context, mutant int, reached string, names []string, timeout time.Duration) (failed []string, err error) {
	within, cancel := context.WithTimeout(ctx, timeout+10*time.Second) // some mutants keep a test from ending itself
	defer cancel()
	cmd := exec.CommandContext(within, "sh", "-c", `ulimit -v 8388608; exec "$@"`, "-", s.binary, "-test.v", "-test.failfast",
		"-test.run=^("+strings.Join(names, "|")+")$", "-test.timeout="+timeout.String())
	cmd.Dir = s.Dir
	cmd.Env = append(os.Environ(), fmt.Sprintf("HEARTWHEEL_MUTANT=%d", mutant), "HEARTWHEEL_MUTANTS_REACHED="+reached)
	cmd.WaitDelay = time.Second
	var output bytes.Buffer
	cmd.Stdout, cmd.Stderr = &output, &output
	err = cmd.Run()
	switch {
	case ctx.Err() != nil:
		return nil, errors.New("interrupted")
	case within.Err() != nil:
		return []string{gotest.TimedOut}, nil
	case err == nil:
		return nil, nil
	case errors.Is(err, exec.ErrWaitDelay), cmd.ProcessState.ExitCode() == 1, cmd.ProcessState.ExitCode() == 2:
		return gotest.WhatFailed(output.Bytes(), err), nil
	}
	return nil, fmt.Errorf("the tests did not run to their end: %w\n%s", err, output.Bytes())
}

// measure runs each test alone and without a mutant. It leaves out failed and long ones.
func (s *suite) measure(ctx context.Context, mutants int, b *bench) error {
	list, err := command.Output(s.Dir, nil, s.binary, "-test.list=^(Test|Fuzz|Example)")
	if err != nil {
		return err
	}
	names := slices.DeleteFunc(strings.Fields(list), func(name string) bool { return !b.run.MatchString(name) })
	s.tests = make([]test, len(names))
	errs := make([]error, len(names))
	each(b.jobs, len(names), func(i int) { s.tests[i], errs[i] = s.alone(ctx, names[i], mutants, b.most) })
	if ctx.Err() != nil {
		return errors.New("interrupted")
	}
	for i, err := range errs {
		if err != nil {
			fmt.Printf("left out: %s %s: %v\n", s.Name, names[i], err)
		}
	}
	s.tests = slices.DeleteFunc(s.tests, func(t test) bool { return !slices.Contains(t.reaches, 1) })
	slices.SortStableFunc(s.tests, func(a, b test) int { return int(a.took - b.took) })
	return nil
}

func (s *suite) alone(ctx context.Context, name string, mutants int, most time.Duration) (test, error) {
	t := test{name: name}
	file := s.binary + "." + name
	defer os.Remove(file)
	if err := os.WriteFile(file, make([]byte, mutants+1), 0o600); err != nil {
		return t, err
	}
	begun := time.Now()
	failed, err := s.start(ctx, 0, file, []string{name}, most)
	t.took = time.Since(begun)
	if err == nil && failed != nil {
		err = fmt.Errorf("without a mutant: %s, after %.1fs", strings.Join(failed, " "), t.took.Seconds())
	}
	if err == nil {
		t.reaches, err = os.ReadFile(file)
	}
	return t, err
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
