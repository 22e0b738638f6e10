package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/heartwheel-go/heartwheel/tools/internal/gotest"
)

// options are how tests are built and run.
type options struct {
	only    string // as in go test -run
	skip    string // as in go test -skip
	tags    string // as in go test -tags
	timeout time.Duration
	stop    time.Duration // how long the long stops are; zero for none
}

// workshop builds the tests of packages, and runs them.
type workshop struct {
	dir  string // temporary
	logs string
	with string // scripts/with
	options
	golang  golang
	library gotest.Overlay // of Go's library, disturbed
	built   int
}

func newWorkshop(how options) (*workshop, error) {
	w := &workshop{options: how}
	var err error
	if w.logs, err = lasting(); err != nil {
		return nil, err
	}
	if w.with, err = filepath.Abs("../scripts/with"); err != nil {
		return nil, err
	}
	if w.dir, err = os.MkdirTemp("", "chaos-*"); err != nil {
		return nil, err
	}
	if w.golang, err = installed(w.dir); err == nil {
		w.library, err = w.golang.disturbed(w.dir)
	}
	if err != nil {
		os.RemoveAll(w.dir)
	}
	return w, err
}

// tests are the tests of a package, built.
type tests struct {
	gotest.Package
	binary  string
	overlay string // a file of the go command
}

// build builds the tests of a package, with an overlay.
func (w *workshop) build(p gotest.Package, o gotest.Overlay) (*tests, error) {
	w.built++
	t := &tests{
		Package: p,
		binary:  filepath.Join(w.dir, fmt.Sprintf("%d-%s.test", w.built, filepath.Base(p.Dir))),
		overlay: filepath.Join(w.dir, fmt.Sprintf("%d-overlay.json", w.built)),
	}
	if err := o.Write(t.overlay); err != nil {
		return nil, err
	}
	return t, gotest.Build(w.with, p, t.binary, "-tags", w.tags, "-overlay", t.overlay)
}

// outcome is what came of a run of tests.
type outcome struct {
	failed []string // names of tests, or what ended the run; none if it passed
	output []byte
	took   time.Duration
}

// run runs tests once, and keeps the log of an interrupted run by its name. Tests built undisturbed have the seed 0.
func (w *workshop) run(ctx context.Context, t *tests, seed uint64, name string) (outcome, error) {
	if ctx.Err() != nil {
		return outcome{}, errors.New("interrupted")
	}
	args := []string{"plain", t.binary, "-test.v", "-test.timeout=" + w.timeout.String(), "-test.run=" + w.only, "-test.skip=" + w.skip}
	cmd := exec.CommandContext(ctx, w.with, args...)
	cmd.Dir = t.Dir
	cmd.Env = append(os.Environ(), "GORACE=atexit_sleep_ms=0") // else each run takes a second more
	count := filepath.Join(w.dir, "count")
	if seed != 0 {
		if err := os.WriteFile(count, nil, 0o600); err != nil {
			return outcome{}, err
		}
		cmd.Env = append(cmd.Env, "HEARTWHEEL_CHAOS="+strconv.FormatUint(seed, 10),
			"HEARTWHEEL_CHAOS_STOP="+strconv.FormatInt(w.stop.Microseconds(), 10),
			"HEARTWHEEL_CHAOS_COUNT="+count, fmt.Sprintf("GOMAXPROCS=%d", 1<<(seed%4)))
	}
	begun := time.Now()
	output, err := cmd.CombinedOutput()
	o := outcome{output: output, took: time.Since(begun)}
	if ctx.Err() != nil {
		log, err := w.keep(name+"-interrupted", o)
		return o, errors.Join(errors.New("interrupted, log: "+log), err)
	}
	if err != nil {
		o.failed = gotest.WhatFailed(output, err)
		return o, nil
	}
	if seed != 0 {
		counted, err := os.ReadFile(count)
		if err != nil {
			return o, err
		}
		var points, yields, stops int
		if n, _ := fmt.Sscan(string(counted), &points, &yields, &stops); n != 3 || yields+stops == 0 {
			return o, fmt.Errorf("%s passed undisturbed: %d points, %d yields, %d stops: the overlay for %s had no effect",
				t.Name, points, yields, stops, w.golang.version)
		}
	}
	return o, nil
}

// keep writes the output of a failed run into a lasting file.
func (w *workshop) keep(name string, o outcome) (string, error) {
	file := filepath.Join(w.logs, strings.NewReplacer("./", "", "/", "-").Replace(name)+".log")
	return file, os.WriteFile(file, o.output, 0o600)
}

// lasting is the folder for logs.
func lasting() (string, error) {
	dir, err := filepath.Abs("../bin/chaos")
	if err != nil {
		return "", err
	}
	return dir, os.MkdirAll(dir, 0o755)
}
