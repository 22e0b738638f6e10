// Command report runs the benchmarks of this repository, and writes a page of tables. Each of its rounds has
// all implementations.
//
//	go run ./report -out RESULTS.md    # all of them, ten minutes
//	go run ./report -quick             # touch, memory and accuracy, a minute, to standard output
//
// A figure is the median of the rounds. Ratios are between figures of one run.
package main

import (
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"time"
)

func main() {
	quick := flag.Bool("quick", false, "only touch, memory and accuracy")
	out := flag.String("out", "", "`file` to write to (default standard output)")
	flag.Parse()
	if err := run(*quick, *out); err != nil {
		fmt.Fprintln(os.Stderr, "report:", err)
		os.Exit(1)
	}
}

func run(quick bool, out string) error {
	p := full
	if quick {
		p = short
	}
	dir, err := os.MkdirTemp("", "heartwheel-bench")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	start := time.Now()
	r := newResults()
	if err := p.run(dir, r); err != nil {
		return err
	}
	page := page{results: r, quick: quick, took: time.Since(start)}
	if out == "" {
		_, err = os.Stdout.WriteString(page.text())
		return err
	}
	return os.WriteFile(out, []byte(page.text()), 0o644)
}

// plan says how often each benchmark is run.
type plan struct {
	rounds int
	each   []job // in each round
	once   []job
}

// job is a run of some benchmarks of a package.
type job struct {
	pkg   string
	bench string
	time  string
}

const (
	module = "github.com/heartwheel-go/heartwheel"
	here   = module + "/bench"
)

var full = plan{
	rounds: 5,
	each: []job{
		{here, "^Benchmark(Touch|TouchNewTick|TouchParallel|Move|Set|Churn)$", "50ms"},
		{module + "/keepalive", "^Benchmark(Touch|Read|ReadAdds|Ask)$", "100ms"},
		{module + "/keepalive/gnetkeepalive", "^Benchmark(Touch|OnTraffic)$", "100ms"},
		{module + "/wheel", "^BenchmarkTick$", "100ms"},
	},
	once: []job{
		{here, "^BenchmarkMemory$", "1x"}, // in a process that has nothing else on its heap
		{here, "^Benchmark(MassExpiry|Blocked|Drift|Stop|Accuracy|CPU)$", "1x"},
		{here, "^BenchmarkEcho$", "1x"},
		{here, "^BenchmarkEchoGnet$", "1x"},
	},
}

var short = plan{
	rounds: 3,
	each: []job{
		{here, "^BenchmarkTouch$/impl=(limit|heartwheel|time.Timer|stdlazy|russellluo|antlabs|SetReadDeadline)$/conns=(9000|10000)$/random", "50ms"},
		{here, "^BenchmarkTouch$/impl=(limit|heartwheel|time.Timer|stdlazy)$/conns=1000000$/random", "50ms"},
		{here, "^BenchmarkTouchNewTick$/./conns=10000$", "50ms"},
		{here, "^BenchmarkMove$/./conns=10000$", "50ms"},
	},
	once: []job{
		{here, "^BenchmarkMemory$", "1x"},
		{here, "^BenchmarkAccuracy$/impl=(heartwheel|go-zero|russellluo|time.Timer)$/tick=100ms$/idle", "1x"},
	},
}

func (p plan) run(dir string, r *results) error {
	for round := range p.rounds {
		for i, j := range p.each {
			fmt.Fprintf(os.Stderr, "round %d of %d, part %d of %d\n", round+1, p.rounds, i+1, len(p.each))
			if err := j.run(dir, r); err != nil {
				return err
			}
		}
	}
	for i, j := range p.once {
		fmt.Fprintf(os.Stderr, "once, part %d of %d\n", i+1, len(p.once))
		if err := j.run(dir, r); err != nil {
			return err
		}
	}
	return nil
}

// run builds the tests of the package, unless they are built, and runs the benchmarks.
func (j job) run(dir string, r *results) error {
	name := strings.ReplaceAll(strings.TrimPrefix(j.pkg, module+"/"), "/", "-")
	binary := filepath.Join(dir, name+".test")
	if _, err := os.Stat(binary); err != nil {
		build := exec.Command("go", "test", "-c", "-o", binary, j.pkg)
		if j.pkg != here {
			build.Dir = ".." // in the module whose tests they are
		}
		if out, err := build.CombinedOutput(); err != nil {
			return fmt.Errorf("building the benchmarks of %s: %w\n%s", j.pkg, err, out)
		}
	}
	cmd := exec.Command(binary, "-test.run=^$", "-test.bench="+j.bench, "-test.benchtime="+j.time, "-test.timeout=20m")
	cmd.Stderr = os.Stderr
	out, err := cmd.Output()
	if err != nil {
		return fmt.Errorf("%s: %w\n%s", cmd, err, out)
	}
	return r.read(name, out)
}

func goVersion() string { return strings.TrimPrefix(runtime.Version(), "go") }
