package main

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"time"

	"github.com/heartwheel-go/heartwheel/tools/internal/gotest"
)

// processors are the values of GOMAXPROCS that each test runs with, as in go test -cpu.
const (
	processors = "1,2,4"
	kinds      = 3
)

// grace is the time limit of a run beyond a multiple of its estimate: a hanging test ends then.
const grace = 2 * time.Minute

// runner builds tests, and runs each many times.
type runner struct {
	dir      string // temporary
	logs     string
	with     string // scripts/with
	times    int
	binaries map[binary]built
}

// binary is what is built: the tests of a package with build tags.
type binary struct {
	pkg  gotest.Package
	tags string
}

// built is the result: a file, or why there is none.
type built struct {
	file string
	err  error
}

func newRunner(root string, times int) (*runner, error) {
	r := &runner{logs: filepath.Join(root, "bin", "flakes"), with: filepath.Join(root, "scripts", "with"), times: times, binaries: map[binary]built{}}
	if err := os.MkdirAll(r.logs, 0o755); err != nil {
		return nil, err
	}
	var err error
	r.dir, err = os.MkdirTemp("", "flakes-*")
	return r, err
}

// build builds the tests of a package with the race detector, once.
func (r *runner) build(b binary) built {
	if done, ok := r.binaries[b]; ok {
		return done
	}
	done := built{file: filepath.Join(r.dir, fmt.Sprintf("%d-%s.test", len(r.binaries), filepath.Base(b.pkg.Dir)))}
	if b.tags == elsewhere {
		done.err = fmt.Errorf("it is for another platform than %s", runtime.GOOS)
	} else {
		fmt.Printf("      building %s\n", b.pkg.Name)
		done.err = gotest.Build(r.with, b.pkg, done.file, "-tags", b.tags)
	}
	r.binaries[b] = done
	return done
}

// result is the sum of the runs of a test.
type result struct {
	runs   int           // that have passed
	took   time.Duration // of one run, on average
	failed string        // empty, or what has happened and where the log is
	skip   string        // empty, or why the test does not run here
}

// add adds more runs.
func (r *result) add(more result) {
	if total := r.runs + more.runs; total > 0 {
		r.took = (r.took*time.Duration(r.runs) + more.took*time.Duration(more.runs)) / time.Duration(total)
	}
	r.runs += more.runs
	if r.failed == "" {
		r.failed = more.failed
	}
	if more.skip != "" {
		r.skip = more.skip
	}
}

// repeat runs a test a number of times for each of the processors' values, in one process. It ends with the first failure.
func (r *runner) repeat(ctx context.Context, t test, count int, estimate time.Duration) result {
	b := r.binaries[binary{t.Package, t.tags}]
	if b.err != nil {
		return result{skip: b.err.Error()}
	}
	limit := grace + 4*time.Duration(kinds*count)*estimate
	ctx, cancel := context.WithTimeout(ctx, limit+time.Minute) // the process reports its own timeout
	defer cancel()
	cmd := exec.CommandContext(ctx, r.with, "plain", b.file, "-test.v", "-test.failfast",
		"-test.run=^"+t.name+"$", "-test.cpu="+processors, fmt.Sprint("-test.count=", count), "-test.timeout="+limit.String())
	cmd.Dir = t.Dir
	cmd.Env = append(os.Environ(), "GORACE=atexit_sleep_ms=0", "CI=") // a missing program is a reason, and not a failure
	output, err := cmd.CombinedOutput()
	done := passes(output, t.name)
	switch {
	case ctx.Err() != nil && context.Cause(ctx) == context.Canceled:
		done.skip = "interrupted"
	case err != nil:
		log := filepath.Join(r.logs, strings.NewReplacer("./", "", "/", "-", " ", "-").Replace(t.String())+".log")
		done.failed = fmt.Sprintf("%s after %d runs, log: %s", strings.Join(gotest.WhatFailed(output, err), " "), done.runs, log)
		if err := os.WriteFile(log, output, 0o600); err != nil {
			done.failed += ": " + err.Error()
		}
	case done.runs == 0:
		done.skip = skipped(output)
	}
	return done
}

// shortest is the time of a test that reports none.
const shortest = 2 * time.Millisecond

// passes counts the runs of a test in its output, and their times.
func passes(output []byte, name string) (done result) {
	for line := range bytes.Lines(output) {
		took, ok := bytes.CutPrefix(line, []byte("--- PASS: "+name+" ("))
		if !ok {
			continue
		}
		d, err := time.ParseDuration(strings.TrimSuffix(strings.TrimSpace(string(took)), ")"))
		if err != nil {
			continue
		}
		done.add(result{runs: 1, took: max(d, shortest)})
	}
	return done
}

// skipped returns the reason of a skipped test from its output.
func skipped(output []byte) string {
	before := ""
	for line := range bytes.Lines(output) {
		text := strings.TrimSpace(string(line))
		if strings.HasPrefix(text, "--- SKIP: ") {
			return "it is skipped: " + before
		}
		if !strings.HasPrefix(text, "=== ") {
			before = text
		}
	}
	return "it does not exist in the build"
}
