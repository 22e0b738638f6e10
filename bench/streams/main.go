// Command streams measures the cost of comments for quiet event streams of net/http, in three ways and without any, in
// turns, each in a process of its own:
//
//	cd bench && go run ./streams -streams 100000 -for 60s -rounds 3
//
// Connections are not real, so that neither descriptors nor the kernel limit their number: a comment costs what net/http
// and the way need, and no system call. In all ways the same HTTP/1.1 server has the same streams. Memory is that of the
// whole process, after a collection.
package main

import (
	"cmp"
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"log"
	"os"
	"os/exec"
	"os/signal"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"text/tabwriter"
	"time"
)

var (
	streams  = flag.Int("streams", 100_000, "how many streams there are")
	length   = flag.Duration("for", time.Minute, "how long each way is measured")
	interval = flag.Duration("interval", 15*time.Second, "how long a stream is quiet until it gets a comment")
	rounds   = flag.Int("rounds", 1, "how often each way is measured, in turns")
)

// wayOf in the environment makes this program the server of a way.
const wayOf = "HEARTWHEEL_STREAMS"

func main() {
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	run := measureAll
	if os.Getenv(wayOf) != "" {
		run = serve
	}
	if err := run(ctx); err != nil {
		log.Fatal(err)
	}
}

// check looks at what was asked for.
func check() error {
	switch {
	case flag.NArg() > 0:
		return fmt.Errorf("unexpected argument %q: there are only flags", flag.Arg(0))
	case *streams < 1:
		return fmt.Errorf("-streams %d, must be at least 1", *streams)
	case *rounds < 1:
		return fmt.Errorf("-rounds %d, must be at least 1", *rounds)
	case *interval < 10*time.Millisecond:
		return fmt.Errorf("-interval %v, must be at least 10ms", *interval)
	case *length < *interval:
		return fmt.Errorf("-for %v, must be at least -interval, %v", *length, *interval)
	}
	return nil
}

// result is what a process tells of its way.
type result struct {
	Way        string
	Comments   float64 // per second
	Processor  float64 // seconds per second
	Memory     uint64  // bytes of the process, resident
	Heap       uint64  // bytes of it that live on the heap
	Stacks     uint64  // bytes of it for stacks
	Goroutines int
}

func measureAll(ctx context.Context) error {
	if err := check(); err != nil {
		return err
	}
	var results []result
	for range *rounds {
		for _, w := range ways {
			r, err := measure(ctx, w.name)
			if err != nil {
				return fmt.Errorf("%s: %w", w.name, cmp.Or(context.Cause(ctx), err))
			}
			log.Printf("%+v", r)
			results = append(results, r)
		}
	}
	fmt.Printf("%s, %d processors, %s. `cd bench && go run ./streams %s`\n\n", time.Now().Format(time.DateOnly),
		runtime.NumCPU(), runtime.Version(), strings.Join(os.Args[1:], " "))
	return write(results)
}

// measure runs a way in a process of its own.
func measure(ctx context.Context, way string) (r result, err error) {
	cmd := exec.CommandContext(ctx, os.Args[0], os.Args[1:]...)
	cmd.Env = append(os.Environ(), wayOf+"="+way)
	cmd.Stderr = os.Stderr
	out, err := cmd.Output()
	if err != nil {
		return r, err
	}
	return r, json.Unmarshal(out, &r)
}

// write writes the median of each way, and the whole range of its processor time.
func write(results []result) error {
	table := tabwriter.NewWriter(os.Stdout, 0, 0, 1, ' ', 0)
	fmt.Fprintln(table, "| way\t| comments/s\t| processor, % of one\t| µs per comment\t| KB per stream: process\t| heap\t| stacks\t| goroutines\t|")
	fmt.Fprintln(table, "| ---\t| ---\t| ---\t| ---\t| ---\t| ---\t| ---\t| ---\t|")
	for _, w := range ways {
		var its []result
		for _, r := range results {
			if r.Way == w.name {
				its = append(its, r)
			}
		}
		slices.SortFunc(its, func(a, b result) int { return cmp.Compare(a.Processor, b.Processor) })
		r := its[len(its)/2]
		each := "-"
		if r.Comments > 0 {
			each = fmt.Sprintf("%.1f", r.Processor/r.Comments*1e6)
		}
		kb := func(bytes uint64) float64 { return float64(bytes) / 1000 / float64(*streams) }
		fmt.Fprintf(table, "| %s\t| %.0f\t| %.1f (%.1f to %.1f)\t| %s\t| %.2f\t| %.2f\t| %.2f\t| %d\t|\n", w.name, r.Comments,
			100*r.Processor, 100*its[0].Processor, 100*its[len(its)-1].Processor, each, kb(r.Memory), kb(r.Heap), kb(r.Stacks), r.Goroutines)
	}
	return table.Flush()
}
