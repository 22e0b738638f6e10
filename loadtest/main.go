// Command loadtest opens many connections to an echo-heartbeat server, lets some
// of them fall silent, and reports what the server did to each.
//
//	go run ./loadtest                            # 10,000 connections, a server of its own
//	go run ./loadtest -addr 127.0.0.1:9000 -timeout 30s -interval 10s -duration 60s
//
// Each connection sends PING lines at an interval, at a phase of its own. A share
// of them falls silent at a random moment, and must be closed by the server when
// its timeout has passed: not before, and not much later. The others must never
// be. It exits with code 0 and "verdict pass" if that was so, with 1 and the
// reasons if not, and with 2 for flags that make no sense.
//
// Round trips are counted from the moment at which a heartbeat was due, not from
// when this program got around to sending it.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"

	"github.com/heartwheel-go/heartwheel/internal/rlimit"
)

const (
	exitFailure = 1
	exitUsage   = 2
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
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
	report, err := measure(ctx, cfg, stderr)
	if err != nil {
		fmt.Fprintf(stderr, "loadtest: %v\n", err)
		return exitFailure
	}
	report.writeTable(stdout)
	if cfg.json != "" {
		if err := report.writeJSON(cfg.json); err != nil {
			fmt.Fprintf(stderr, "loadtest: %v\n", err)
			return exitFailure
		}
	}
	if report.Verdict != pass {
		return exitFailure
	}
	return 0
}

// spareFiles is how many descriptors this program needs besides its connections.
const spareFiles = 64

// measure does the whole run, with a server of its own if need be.
func measure(ctx context.Context, cfg config, progress io.Writer) (*report, error) {
	if cfg.json != "" { // now rather than at the end
		f, err := os.OpenFile(cfg.json, os.O_WRONLY|os.O_CREATE, 0o644)
		if err != nil {
			return nil, fmt.Errorf("-json: %w", err)
		}
		_ = f.Close()
	}
	if limit, err := rlimit.Raise(cfg.conns + spareFiles); err != nil {
		return nil, fmt.Errorf("%d connections don't fit into this process, which may have %d descriptors and can't raise that (see ulimit -n): at most %d do",
			cfg.conns, limit, max(0, limit-spareFiles))
	}
	var child *child
	if cfg.addr == "" {
		var err error
		if child, err = startServer(ctx, cfg); err != nil {
			return nil, err
		}
		defer child.kill()
		cfg.addr = child.addr
	}
	result, err := drive(ctx, cfg, progress)
	if err != nil {
		return nil, err
	}
	report := result.report(cfg)
	if child != nil {
		if report.Server, err = child.stop(); err != nil {
			report.fail("the server did not end well: %v", err)
		}
	}
	return report, nil
}
