// Command soak keeps an echo-heartbeat server with all its policies busy for a long time, and looks whether it
// ever closes what lives, closes too early, or forgets what is dead. It is for Linux.
//
//	go run ./loadtest/soak -time 1h
//	go run ./loadtest/soak -time 10m -seed 42
//
// 15,000 clients behave in every way: they talk, only answer pings, read slowly, fall silent, send half a line
// byte by byte, never read, send too much or too little, come and go, or vanish without a word. Meanwhile the
// server is told to read its config again, stopped for up to two timeouts, and drained and started again. A
// client knows when it last gave a sign of life, so it can tell what its end should have been. It must find the
// server, unless that is being started again.
//
// The exit code is 0 after "verdict pass", 1 after the reasons otherwise, and 2 for flags without sense. -seed
// repeats the order of events, but not their exact times. Clients vanish only if root runs this: it takes a
// network namespace.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/signal"
	"syscall"
	"time"
)

const (
	exitFailure = 1
	exitUsage   = 2

	longest = 1000 * time.Hour // timeout
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, stop) // a second signal ends the process at once
	exit := run(ctx, os.Args[1:], os.Stdout, os.Stderr)
	stop()
	os.Exit(exit)
}

// config is what the flags say.
type config struct {
	time    time.Duration
	conns   int
	timeout time.Duration
	seed    uint64
	flat    float64
}

func parse(args []string, stderr io.Writer) (cfg config, err error) {
	flags := flag.NewFlagSet("soak", flag.ContinueOnError)
	flags.SetOutput(stderr)
	flags.DurationVar(&cfg.time, "time", 10*time.Minute, "how long it takes, after all clients are there")
	flags.IntVar(&cfg.conns, "conns", 15_000, "number of clients")
	flags.DurationVar(&cfg.timeout, "timeout", 10*time.Second, "timeout of the server; the other times are parts of it")
	flags.Uint64Var(&cfg.seed, "seed", 0, "seed of all that is random; 0 is a new one")
	flags.Float64Var(&cfg.flat, "flat", 0, "by what share memory and descriptors may grow from the first quarter to the last; 0 is 0.03, and 0.1 in less than half an hour")
	if err := flags.Parse(args); err != nil {
		return cfg, err
	}
	switch {
	case flags.NArg() > 0:
		return cfg, fmt.Errorf("unexpected argument %q: there are only flags", flags.Arg(0))
	case cfg.timeout < time.Second:
		return cfg, fmt.Errorf("-timeout %v: must be at least 1s", cfg.timeout)
	case cfg.timeout > longest:
		return cfg, fmt.Errorf("-timeout %v: must be at most %v", cfg.timeout, longest)
	case cfg.time < 6*cfg.timeout:
		return cfg, fmt.Errorf("-time %v: must be at least six timeouts, %v", cfg.time, 6*cfg.timeout)
	case cfg.conns < len(kinds):
		return cfg, fmt.Errorf("-conns %d: must be at least %d, one of each kind", cfg.conns, len(kinds))
	case !(cfg.flat >= 0): // nor NaN
		return cfg, fmt.Errorf("-flat %v: must not be negative", cfg.flat)
	case cfg.flat == 0 && cfg.time < 30*time.Minute: // the heap of a new server grows for minutes
		cfg.flat = 0.1
	case cfg.flat == 0:
		cfg.flat = 0.03
	}
	if cfg.seed == 0 {
		cfg.seed = rand.Uint64()
	}
	var files syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &files); err == nil && uint64(cfg.conns) > files.Cur*4/5 {
		return cfg, fmt.Errorf("-conns %d: must be at most %d, four fifths of this process's descriptors", cfg.conns, files.Cur*4/5)
	}
	return cfg, nil
}

func run(ctx context.Context, args []string, stdout, stderr io.Writer) (exit int) {
	cfg, err := parse(args, io.Discard)
	switch {
	case errors.Is(err, flag.ErrHelp):
		_, _ = parse(args, stdout)
		return 0
	case err != nil:
		fmt.Fprintf(stderr, "soak: %v\n", err)
		return exitUsage
	}
	exit, err = soakInNetns(ctx, cfg, args, stdout, stderr)
	if err != nil {
		fmt.Fprintf(stderr, "soak: %v\n", err)
		return exitFailure
	}
	return exit
}
