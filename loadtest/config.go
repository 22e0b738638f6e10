package main

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"time"
)

type config struct {
	addr     string
	server   string
	conns    int
	silent   float64
	interval time.Duration
	timeout  time.Duration
	tick     time.Duration
	ramp     int
	duration time.Duration
	json     string
}

// parse reads the flags. Its error is one line.
func parse(args []string, stderr io.Writer) (cfg config, err error) {
	flags := flag.NewFlagSet("loadtest", flag.ContinueOnError)
	flags.SetOutput(io.Discard) // an error is reported once, by the caller
	flags.StringVar(&cfg.addr, "addr", "", "address of an echo-heartbeat server, `host:port` (default a server of its own on a free port)")
	flags.StringVar(&cfg.server, "server", "", "`file` of the echo-heartbeat program for the server of its own (default it is built)")
	flags.IntVar(&cfg.conns, "conns", 10_000, "number of connections")
	flags.Float64Var(&cfg.silent, "silent", 0.1, "share of the connections that falls silent, 0 to 1")
	flags.DurationVar(&cfg.interval, "interval", 2*time.Second, "time between the heartbeats of a connection")
	flags.DurationVar(&cfg.timeout, "timeout", 6*time.Second, "timeout of the server")
	flags.DurationVar(&cfg.tick, "tick", 100*time.Millisecond, "tick of a server of its own")
	flags.IntVar(&cfg.ramp, "ramp", 5000, "connections opened per second")
	flags.DurationVar(&cfg.duration, "duration", 20*time.Second, "how long to go on after all connections are open")
	flags.StringVar(&cfg.json, "json", "", "`file` to write the report to")
	switch err := flags.Parse(args); {
	case errors.Is(err, flag.ErrHelp):
		flags.SetOutput(stderr)
		fmt.Fprintln(stderr, "Usage of loadtest:")
		flags.PrintDefaults()
		return cfg, err
	case err != nil:
		return cfg, err
	case flags.NArg() > 0:
		return cfg, fmt.Errorf("unexpected argument %q: there are only flags", flags.Arg(0))
	}
	return cfg, cfg.check()
}

// margin is what a server may take, after the timeout, until a silent connection
// is closed, and for an answer.
func (cfg config) margin() time.Duration { return 2*time.Second + 2*cfg.tick }

// longest bounds all durations.
const longest = 1000 * time.Hour

func (cfg config) check() error {
	const ms = time.Millisecond
	switch {
	case cfg.conns < 1:
		return fmt.Errorf("-conns %d: must be at least 1", cfg.conns)
	case !(cfg.silent >= 0 && cfg.silent <= 1): // nor NaN
		return fmt.Errorf("-silent %v: must be 0 to 1", cfg.silent)
	case cfg.ramp < 1:
		return fmt.Errorf("-ramp %d: must be at least 1", cfg.ramp)
	case cfg.interval < ms:
		return fmt.Errorf("-interval %v: must be at least 1ms", cfg.interval)
	case cfg.duration > longest: // which the others are shorter than
		return fmt.Errorf("-duration %v: must be at most %v", cfg.duration, longest)
	case cfg.tick < ms || cfg.tick > cfg.timeout:
		return fmt.Errorf("-tick %v: must be 1ms to -timeout %v", cfg.tick, cfg.timeout)
	case cfg.timeout <= cfg.interval:
		return fmt.Errorf("-timeout %v: must be longer than -interval %v, or live connections are closed", cfg.timeout, cfg.interval)
	case cfg.duration < cfg.timeout+cfg.interval:
		return fmt.Errorf("-duration %v: must be at least -timeout %v and -interval %v, so that connections can fall silent and be closed",
			cfg.duration, cfg.timeout, cfg.interval)
	}
	return nil
}
