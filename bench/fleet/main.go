// Command fleet measures the cost of knowing a million sessions to be there, in three ways: this project's
// fleet; a key with an expiry for each session, written every half minute; and a write for each heartbeat.
// All are on the same Redis, in turns, with each node a process of its own.
//
//	cd bench && go run ./fleet -sessions 1000000 -nodes 3 -for 60s
//
// It starts redis-server, without persistence, and ends it. Connections are not real, to
// leave the network out. No session ends. If one is told to be offline, the figures are of something else,
// and the command fails.
package main

import (
	"cmp"
	"context"
	"errors"
	"flag"
	"fmt"
	"log"
	"os"
	"os/signal"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"text/tabwriter"
	"time"

	"github.com/heartwheel-go/heartwheel/bench/internal/redisserver"
)

// shortestBeat is how often clients may be heard at most.
const shortestBeat = 10 * time.Millisecond

var (
	sessions  = flag.Int("sessions", 1_000_000, "how many sessions there are")
	nodes     = flag.Int("nodes", 3, "how many nodes have them")
	length    = flag.Duration("for", time.Minute, "how long each is measured")
	settle    = flag.Duration("settle", 30*time.Second, "how long before that they do the same")
	rounds    = flag.Int("rounds", 1, "how often each is measured, in turns")
	heartbeat = flag.Duration("heartbeat", 10*time.Second, "how often clients are heard, for a write each")
	only      = flag.String("only", "", "part of the names of what to measure")
)

func main() {
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	var err error
	if order := os.Getenv(orderOf); order != "" {
		err = runNode(ctx, order)
	} else {
		err = run(ctx)
	}
	if err != nil {
		log.Fatal(err)
	}
}

func run(ctx context.Context) error {
	chosen := ways.named(*only)
	if err := check(chosen); err != nil {
		return err
	}
	server, err := redisserver.Start(ctx)
	if err != nil {
		return err
	}
	defer server.Stop()
	var results []result
	for range *rounds {
		for _, w := range chosen {
			r, err := measure(ctx, server, w.name)
			if err != nil {
				return fmt.Errorf("%s: %w", w.name, cmp.Or(context.Cause(ctx), err)) // nodes end with ctx
			}
			log.Print(r)
			results = append(results, r)
		}
	}
	fmt.Printf("%s, %d processors, %s, Redis %s. `cd bench && go run ./fleet %s`\n\n", time.Now().Format(time.DateOnly),
		runtime.NumCPU(), runtime.Version(), server.Version, strings.Join(os.Args[1:], " "))
	if err := write(results); err != nil {
		return err
	}
	return judge(results)
}

// check looks at what was asked for.
func check(chosen list) error {
	switch {
	case flag.NArg() > 0:
		return fmt.Errorf("unexpected argument %q: there are only flags", flag.Arg(0))
	case *nodes < 1:
		return fmt.Errorf("-nodes %d, must be at least 1", *nodes)
	case *sessions < *nodes:
		return fmt.Errorf("-sessions %d, must be at least -nodes, %d", *sessions, *nodes)
	case *rounds < 1:
		return fmt.Errorf("-rounds %d, must be at least 1", *rounds)
	case *length < time.Second:
		return fmt.Errorf("-for %v, must be at least 1s", *length)
	case *settle < 0:
		return fmt.Errorf("-settle %v, must not be negative", *settle)
	case *heartbeat < shortestBeat:
		return fmt.Errorf("-heartbeat %v, must be at least %v", *heartbeat, shortestBeat)
	case len(chosen) == 0:
		return fmt.Errorf("-only %q, must be part of one of %q", *only, ways.names())
	}
	return nil
}

// judge returns an error if a session was told to be offline.
func judge(results []result) error {
	var errs []error
	for _, r := range results {
		if r.offline > 0 {
			errs = append(errs, fmt.Errorf("%s: %d sessions were told to be offline, and none has ended", r.name, r.offline))
		}
	}
	return errors.Join(errs...)
}

// result is what was measured of one way in one round.
type result struct {
	name          string
	wanted, done  float64 // writes per second
	redis         float64 // % of a core
	least, most   float64 // % of a core, of the nodes
	redisB, nodeB float64 // bytes per session
	offline       int     // sessions that were said to have ended
}

func (r result) String() string {
	return fmt.Sprintf("%s: %.0f of %.0f writes/s, Redis %.1f %%, nodes %.1f to %.1f %%, %.0f B in Redis, %.0f B in the node, %d offline",
		r.name, r.done, r.wanted, r.redis, r.least, r.most, r.redisB, r.nodeB, r.offline)
}

// measure has nodes do it in one way.
func measure(ctx context.Context, server *redisserver.Server, name string) (r result, err error) {
	if err := server.Client.FlushAll(ctx).Err(); err != nil {
		return r, err
	}
	memory, err := server.UsedMemory(ctx)
	if err != nil {
		return r, err
	}
	var all []*node
	defer func() {
		for _, n := range all {
			n.stop()
		}
	}()
	for i := range *nodes {
		n, err := startNode(ctx, order{Way: name, URL: "redis://" + server.Addr, Node: i, From: *sessions * i / *nodes, To: *sessions * (i + 1) / *nodes, Heartbeat: *heartbeat})
		if err != nil {
			return r, err
		}
		all = append(all, n)
	}
	for _, n := range all {
		if _, err := n.ask(); err != nil { // when all its sessions are there
			return r, err
		}
	}
	log.Printf("%s: %d sessions are there", name, *sessions)
	if err := sleep(ctx, *settle); err != nil {
		return r, err
	}
	after, err := server.UsedMemory(ctx)
	if err != nil {
		return r, err
	}
	before, cpu, err := look(ctx, server, all)
	if err != nil {
		return r, err
	}
	began := time.Now()
	if err := sleep(ctx, *length); err != nil {
		return r, err
	}
	now, cpuNow, err := look(ctx, server, all)
	if err != nil {
		return r, err
	}
	took := time.Since(began).Seconds()
	r = result{name: name, redis: 100 * (cpuNow - cpu) / took, redisB: (after - memory) / float64(*sessions)}
	var shares []float64
	for i := range all {
		r.done += float64(now[i].Writes-before[i].Writes) / took
		r.wanted += now[i].Wanted
		r.nodeB += now[i].Bytes / float64(*sessions)
		r.offline += now[i].Offline
		shares = append(shares, 100*(now[i].CPU-before[i].CPU)/took)
	}
	r.least, r.most = slices.Min(shares), slices.Max(shares)
	return r, nil
}

func sleep(ctx context.Context, d time.Duration) error {
	select {
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-time.After(d):
		return nil
	}
}

func look(ctx context.Context, server *redisserver.Server, all []*node) (states []state, cpu float64, err error) {
	for _, n := range all {
		s, err := n.ask()
		if err != nil {
			return nil, 0, err
		}
		states = append(states, s)
	}
	cpu, err = server.Processor(ctx)
	return states, cpu, err
}

func write(results []result) error {
	tw := tabwriter.NewWriter(os.Stdout, 0, 0, 1, ' ', 0)
	fmt.Fprintln(tw, "| how\t| writes/s\t| wanted\t| Redis, % of a core\t| each node\t| µs of Redis per write\t| bytes per session in Redis\t| in the node\t| told to be offline\t|")
	fmt.Fprintln(tw, "|---\t|---:\t|---:\t|---:\t|---:\t|---:\t|---:\t|---:\t|---:\t|")
	for _, r := range results {
		fmt.Fprintf(tw, "| %s\t| %.0f\t| %.0f\t| %.1f\t| %.1f to %.1f\t| %.1f\t| %.0f\t| %.0f\t| %d\t|\n",
			r.name, r.done, r.wanted, r.redis, r.least, r.most, r.redis*1e4/max(r.done, 1), r.redisB, r.nodeB, r.offline)
	}
	return tw.Flush()
}
