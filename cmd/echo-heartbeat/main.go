// Command echo-heartbeat is a TCP server that echoes lines and closes connections
// that have been silent for too long. See package server for its protocol, which
// a person can speak with nc.
//
//	echo-heartbeat -addr 127.0.0.1:9000 -timeout 30s
//
// SIGINT and SIGTERM end it gracefully: each connection gets a farewell. A second
// one ends it at once. Flags that make no sense end it with exit code 2 and one
// line, and what goes wrong later with exit code 1.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/heartwheel-go/heartwheel/internal/rlimit"
	"github.com/heartwheel-go/heartwheel/server"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, stop) // a second signal ends the process at once
	os.Exit(run(ctx, os.Args[1:], os.Stderr))
}

const (
	exitFailure = 1
	exitUsage   = 2
)

func run(ctx context.Context, args []string, stderr io.Writer) (exit int) {
	cfg, err := parse(args, stderr)
	switch {
	case errors.Is(err, flag.ErrHelp):
		return 0
	case err != nil:
		fmt.Fprintf(stderr, "echo-heartbeat: %v\n", err)
		return exitUsage
	}
	raiseLimit(cfg)
	s, err := server.New(cfg)
	if err != nil {
		fmt.Fprintf(stderr, "echo-heartbeat: %v\n", err)
		return exitUsage
	}
	if err := s.Run(ctx); err != nil {
		cfg.Logger.Error("stopped", "error", err)
		return exitFailure
	}
	cfg.Logger.Info("stopped")
	return 0
}

// parse reads the flags. Its error is one line.
func parse(args []string, stderr io.Writer) (cfg server.Config, err error) {
	flags := flag.NewFlagSet("echo-heartbeat", flag.ContinueOnError)
	flags.SetOutput(io.Discard) // an error is reported once, by the caller
	flags.StringVar(&cfg.Addr, "addr", "127.0.0.1:9000", "address to listen on, `host:port`; port 0 is any free one")
	flags.DurationVar(&cfg.Timeout, "timeout", 30*time.Second, "how long a connection may be without a whole line")
	flags.DurationVar(&cfg.Tick, "tick", 0, "how precise the timeout is (default 100ms, less for a timeout under 1s)")
	flags.IntVar(&cfg.MaxConns, "max-conns", 0, "how many connections to serve at a time (default as many as the descriptor limit has room for)")
	format := flags.String("log-format", "text", "format of the log, `text|json`")
	switch err := flags.Parse(args); {
	case errors.Is(err, flag.ErrHelp):
		flags.SetOutput(stderr)
		fmt.Fprintln(stderr, "Usage of echo-heartbeat:")
		flags.PrintDefaults()
		return cfg, err
	case err != nil:
		return cfg, err
	case flags.NArg() > 0:
		return cfg, fmt.Errorf("unexpected argument %q: there are only flags", flags.Arg(0))
	}
	if cfg.Addr == "" {
		return cfg, errors.New(`invalid value "" for flag -addr: must be host:port`)
	}
	if cfg.Timeout == 0 {
		return cfg, errors.New("invalid value 0s for flag -timeout: must be at least 1ms")
	}
	switch *format {
	case "text":
		cfg.Logger = slog.New(slog.NewTextHandler(stderr, nil))
	case "json":
		cfg.Logger = slog.New(slog.NewJSONHandler(stderr, nil))
	default:
		return cfg, fmt.Errorf("invalid value %q for flag -log-format: must be text or json", *format)
	}
	return cfg, nil
}

// spare is how many descriptors more than connections to ask for: what the
// server keeps free, and more than a little, since most come from the loops.
func spare(conns int) int { return 1024 + conns/16 }

// raiseLimit raises the descriptor limit as far as it goes, or as far as is
// needed. Where that is not far enough, server.New says so.
func raiseLimit(cfg server.Config) {
	const enough = 1 << 20
	want := enough
	if cfg.MaxConns > 0 {
		want = cfg.MaxConns + spare(cfg.MaxConns)
	}
	have, err := rlimit.Raise(want)
	if err != nil {
		cfg.Logger.Debug("descriptor limit", "limit", have, "error", err)
	}
}
