package main

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"time"

	"github.com/heartwheel-go/heartwheel/tools/internal/gotest"
)

// processors are the values of GOMAXPROCS that each test runs with, as in go test -cpu.
const (
	processors = "1,2,4"
	kinds      = 3
)

// grace is the time limit of a run for each of the processors' values, beyond a multiple of its estimate: a hanging test
// ends then. The first run of a package, which has no estimate, takes a third of that on a busy machine.
const grace = 10 * time.Minute

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

// repeat runs tests of one binary a number of times for each of the processors' values, in one process.
func (r *runner) repeat(ctx context.Context, tests []test, count int, estimate time.Duration) map[test]result {
	done := make(map[test]result, len(tests))
	b := r.binaries[binary{tests[0].Package, tests[0].tags}]
	names := make([]string, len(tests))
	for i, t := range tests {
		names[i] = t.name
		if b.err != nil {
			done[t] = result{skip: b.err.Error()}
		}
	}
	if b.err != nil {
		return done
	}
	limit := kinds * (grace + 4*time.Duration(count)*estimate)
	within, cancel := context.WithTimeout(ctx, limit+time.Minute) // the process reports its own timeout
	defer cancel()
	cmd := exec.CommandContext(within, r.with, "plain", b.file, "-test.v",
		"-test.run=^("+strings.Join(names, "|")+")$", "-test.cpu="+processors, fmt.Sprint("-test.count=", count), "-test.timeout="+limit.String())
	cmd.Dir = tests[0].Dir
	cmd.Env = append(os.Environ(), "GORACE=atexit_sleep_ms=0", "CI=") // a missing program is a reason, and not a failure
	output, err := cmd.CombinedOutput()
	if ctx.Err() != nil {
		return done
	}
	failed := map[string]bool{}
	if err != nil {
		what := gotest.WhatFailed(output, err)
		for _, name := range gotest.TopLevel(what) {
			failed[name] = true
		}
		if !slices.ContainsFunc(names, func(name string) bool { return failed[name] }) {
			failed[names[0]] = true // for what failed beside the tests, such as a goroutine left behind
		}
	}
	for _, t := range tests {
		one := passes(output, t.name)
		switch {
		case failed[t.name]:
			one.failed = r.keep(t, output, err, one.runs)
		case one.runs == 0 && err == nil:
			one.skip = skipped(output, t.name)
		}
		done[t] = one
	}
	return done
}

// keep keeps the log of a failure, and returns a line about it.
func (r *runner) keep(t test, output []byte, err error, runs int) string {
	log := filepath.Join(r.logs, strings.NewReplacer("./", "", "/", "-", " ", "-").Replace(t.String())+".log")
	line := fmt.Sprintf("passed %d times, log: %s", runs, log)
	if fails := bytes.Count(output, []byte("\n--- FAIL: "+t.name+" (")); fails > 0 {
		line = fmt.Sprintf("failed %d times, ", fails) + line
	} else {
		line = strings.Join(gotest.WhatFailed(output, err), " ") + ": " + line
	}
	if err := os.WriteFile(log, output, 0o600); err != nil {
		line += ": " + err.Error()
	}
	return line
}

// shortest is the time of a test that reports none.
const shortest = 2 * time.Millisecond

// passes counts the runs of a test in its output, and their times. The time of a test leaves out those of its parallel
// subtests, and theirs leave out those of their own. So the longest sum of one depth counts.
func passes(output []byte, name string) (done result) {
	var sums []time.Duration // by depth
	for line := range bytes.Lines(output) {
		text := bytes.TrimLeft(line, " ")
		depth := (len(line) - len(text)) / len("    ")
		for len(sums) <= depth {
			sums = append(sums, 0)
		}
		if took, ok := timeOf(text, "--- PASS: "+name+" ("); ok && depth == 0 {
			sums[0] += max(took, shortest)
			done.runs++
		} else if took, ok := timeOf(text, "--- PASS: "+name+"/"); ok {
			sums[depth] += took
		}
	}
	if done.runs > 0 {
		done.took = slices.Max(sums) / time.Duration(done.runs)
	}
	return done
}

// timeOf returns the time in brackets at the end of a line that begins in a certain way.
func timeOf(line []byte, begin string) (time.Duration, bool) {
	if !bytes.HasPrefix(line, []byte(begin)) {
		return 0, false
	}
	text := strings.TrimSuffix(strings.TrimSpace(string(line)), ")")
	took, err := time.ParseDuration(text[strings.LastIndex(text, "(")+1:])
	return took, err == nil
}

// skipped returns the reason of a skipped test from the output of a run.
func skipped(output []byte, name string) string {
	before := ""
	for line := range bytes.Lines(output) {
		text := strings.TrimSpace(string(line))
		if strings.HasPrefix(text, "--- SKIP: "+name+" ") {
			return "it is skipped: " + before
		}
		if !strings.HasPrefix(text, "=== ") {
			before = text
		}
	}
	return "it does not exist in the build"
}
