// Command loadtest opens many connections to echo-heartbeat servers, lets some of
// them fall silent, and reports what the servers did to each.
//
//	go run ./loadtest                            # 10,000 connections, a server of its own
//	go run ./loadtest -conns 100000 -interval 10s -timeout 30s
//	go run ./loadtest -conns 100000 -interval 10s -timeout 30s -storm
//	go run ./loadtest -html page.html            # with plots over time
//	go run ./loadtest -addr 127.0.0.1:9000 -timeout 30s -interval 10s
//	go run ./loadtest -nodes 3 -lease 6s         # a fleet; a node is killed
//	go run ./loadtest -nodes 3 -rolling          # a fleet; its nodes are restarted in turn
//
// Each connection sends PING lines at an interval, at a phase of its own. A share of them falls silent
// at a random moment. The server must close these when its timeout has passed: not before, and not much
// later. It must never close the others. If that was so, the exit code is 0, after "verdict pass".
// Otherwise it is 1, after the reasons. It is 2 for flags without sense, and for files that can not be
// written.
//
// With -nodes the connections are sessions of a fleet of gateways. They share a Redis of their own, or
// that of -redis. Nothing happens for a time, -steady. Then a node is killed, or -kill of them, or none.
// Some of its clients come back elsewhere, at random moments. The fleet must tell that the others are
// offline within a lease and a second, not long before their leases can have ended, and nobody else. With
// -rolling each node is ended and started anew, and the fleet must tell of nobody.
//
// The old end of a client may be told a moment after its return, since both are on their way at the same
// time: by 100 ms and the longest answer of the run at most, and of no more clients than chance
// explains.
//
// A round trip begins when a heartbeat is due, not when this program gets around to sending it.
//
// If a process may not have as many descriptors as there are connections, the servers are several
// processes, and the threads of this one have descriptors of their own.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"runtime"
	"strings"
	"syscall"

	"github.com/heartwheel-go/heartwheel/loadtest/internal/child"
)

const (
	exitFailure = 1
	exitUsage   = 2
)

// The main goroutine keeps the main thread, and no worker gets it: Go never ends it.
func init() { runtime.LockOSThread() }

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, stop) // a second signal ends the process at once
	exit := run(ctx, os.Args[1:], os.Stdout, os.Stderr)
	stop()
	os.Exit(exit)
}

func run(ctx context.Context, args []string, stdout, stderr io.Writer) (exit int) {
	cfg, err := parse(args, stderr)
	switch {
	case errors.Is(err, flag.ErrHelp):
		return 0
	case err != nil:
		fmt.Fprintf(stderr, "loadtest: %v\n", err)
		return exitUsage
	}
	exit, err = runConfig(ctx, cfg, args, stdout, stderr)
	if err != nil {
		for line := range strings.Lines(err.Error()) {
			fmt.Fprintf(stderr, "loadtest: %s\n", strings.TrimSuffix(line, "\n"))
		}
		if errors.Is(err, child.ErrFlags) {
			return exitUsage
		}
		return exitFailure
	}
	return exit
}

func runConfig(ctx context.Context, cfg config, args []string, stdout, stderr io.Writer) (exit int, err error) {
	if cfg.netns {
		if !isInNetns() {
			return runInNetns(ctx, cfg, args, stdout, stderr)
		}
		if err := enterNetns(); err != nil {
			return 0, err
		}
	}
	if err := cfg.createOutputs(); err != nil {
		fmt.Fprintf(stderr, "loadtest: %v\n", err)
		return exitUsage, nil
	}
	report, err := measure(ctx, cfg, stderr)
	if err != nil {
		removeOutputs(cfg.outputs()) // rather no report than an empty one
		if report != nil && cfg.html != "" {
			err = errors.Join(err, report.writeHTML(cfg.html, cfg))
		}
		return 0, err
	}
	report.writeTable(stdout)
	if err := report.write(cfg); err != nil {
		return 0, err
	}
	if report.Verdict != pass {
		return exitFailure, nil
	}
	return 0, nil
}

// measure does the whole run, with servers of its own if need be. A run that ends too early has an
// error and a report, too.
func measure(ctx context.Context, cfg config, progress io.Writer) (*report, error) {
	p, err := newPlan(cfg)
	if err != nil {
		return nil, err
	}
	if err := checkMachine(cfg, p); err != nil {
		return nil, err
	}
	if cfg.fleet.Nodes == 0 || p.ownFiles { // or there is nothing to explain
		p.explain(progress)
	}
	meter := newMeter()
	crew, err := newCrew(cfg, p)
	if err != nil {
		return nil, err
	}
	defer crew.dismiss()

	// The servers end with this thread.
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	own, addrs := new(child.Group), []string{cfg.addr}
	switch {
	case cfg.fleet.Nodes > 0:
		if own, err = crew.fleet.Launch(ctx, p.serverEnv(), meter); err != nil {
			return nil, err
		}
		defer crew.fleet.Kill()
		var release func()
		ctx, release = crew.fleet.UntilRedisEnds(ctx)
		defer release()
	case cfg.addr == "":
		if own, err = startServers(ctx, cfg, p); err != nil {
			return nil, err
		}
		defer own.Kill()
	}
	if cfg.addr == "" {
		addrs = own.Addrs()
	}
	meter.watch(own.PIDs())
	stop := showProgress(progress, &crew.counters)
	result, err := crew.drive(ctx, addrs, meter)
	stop()
	if err != nil && result == nil {
		return nil, err
	}
	report := newReport(cfg, p, result, meter)
	if err != nil {
		report.abort(err)
		return report, err
	}
	crew.dismiss() // so that the servers have nobody left to say goodbye to
	if cfg.addr == "" {
		used, err := own.Stop()
		report.Server.RSSBytes, report.Server.CPUSeconds = used.PeakBytes, used.Processor.Seconds()
		if err != nil {
			report.fail("the servers did not end well: %v", err)
		}
	}
	return report, nil
}
