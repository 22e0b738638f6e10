package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"time"

	"github.com/heartwheel-go/heartwheel/tools/conformance/guard"
)

// result is what came of a test.
type result struct {
	action string // of test2json: pass, fail or skip
	output string
}

// limit is how long a run of a suite may take: six times what the longest takes on two idle processors.
const limit = 8 * time.Minute

// run runs the tests of a suite in a folder, and returns their results by name. A test that was begun and
// did not end, since its process did, has failed.
func run(ctx context.Context, dir string, s suite, control bool) (map[string]result, error) {
	all, err := runSome(ctx, dir, s, control, s.run, joined(s.skip, s.apart))
	if err != nil || s.apart == "" {
		return all, err
	}
	apart, err := runSome(ctx, dir, s, control, s.apart, s.skip)
	maps.Copy(all, apart)
	return all, err
}

// joined returns a regular expression for what either matches.
func joined(a, b string) string {
	if a == "" || b == "" {
		return a + b
	}
	return a + "|" + b
}

// runSome runs the tests matched by one regular expression and not by the other, if there are any.
func runSome(ctx context.Context, dir string, s suite, control bool, only, skip string) (map[string]result, error) {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	args := []string{"test", "-json", "-vet=off", "-count=1", "-tags=conformance", "-timeout=" + (limit - 10*time.Second).String()}
	if only != "" {
		args = append(args, "-run="+only)
	}
	if skip != "" {
		args = append(args, "-skip="+skip)
	}
	cmd := exec.CommandContext(ctx, "go", append(args, s.packages...)...)
	cmd.Dir = dir
	// The tested program ends with it. Else it would keep the ports of the next run.
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	cmd.Env = os.Environ()
	if control {
		cmd.Env = append(cmd.Env, guard.Env+"=1")
	}
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	results, other, err := read(stdout)
	failed := cmd.Wait() // a failed test is a failed command, too
	switch {
	case err != nil:
		return nil, err
	case len(results) == 0:
		return nil, fmt.Errorf("no test has run: %w\n%s%s", failed, other, stderr.String())
	case ctx.Err() != nil:
		return nil, fmt.Errorf("not done after %v", limit)
	}
	return results, nil
}

// event is a line of go test -json.
type event struct {
	Action, Package, Test, Output, ImportPath string
}

// read returns the results of tests without tests of their own, and all that no test has written. A test
// with others in it, or a package, counts if it failed and none of them did.
func read(r io.Reader) (results map[string]result, other string, err error) {
	all := make(map[string]result)
	parents, blamed := make(map[string]bool), make(map[string]bool)
	for d := json.NewDecoder(r); ; {
		var e event
		if err := d.Decode(&e); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			return nil, "", fmt.Errorf("output of go test -json: %w", err)
		}
		if e.Action == "build-fail" {
			return nil, "", fmt.Errorf("%s is not built", e.ImportPath)
		}
		name := e.Package + "." + e.Test
		if e.Test == "" { // the package: its end is that of TestMain, or of the process
			other += e.Output
			name = e.Package
			parents[name] = true
		}
		got := all[name]
		got.output += e.Output
		switch e.Action {
		case "run":
			got.action = "fail" // until it says otherwise
			for p := parent(name); p != ""; p = parent(p) {
				parents[p] = true
			}
		case "pass", "fail", "skip":
			got.action = e.Action
		}
		all[name] = got
	}
	for name, got := range all {
		if got.action == "fail" && !parents[name] {
			for p := parent(name); p != ""; p = parent(p) {
				blamed[p] = true
			}
		}
	}
	for name, got := range all {
		if parents[name] && (got.action != "fail" || blamed[name]) {
			delete(all, name)
		}
	}
	return all, other, nil
}

// parent returns the name of the test or the package that a test is part of. Packages are part of nothing,
// "". Their paths have slashes and dots, but no name of a test.
func parent(name string) string {
	begin := strings.LastIndex(name, ".Test")
	if begin < 0 {
		return ""
	}
	if i := strings.LastIndexByte(name[begin:], '/'); i >= 0 {
		return name[:begin+i]
	}
	return name[:begin]
}
