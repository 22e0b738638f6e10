package main

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"strconv"
	"time"

	"github.com/heartwheel-go/heartwheel/loadtest/fleet"
)

type config struct {
	addr     string
	server   string
	baseline string
	conns    int
	procs    int // 0 is as many as are needed
	silent   float64
	interval time.Duration
	timeout  time.Duration
	tick     time.Duration
	ramp     int
	duration time.Duration
	reply    bool
	probes   int
	quantum  time.Duration
	storm    bool
	netns    bool
	json     string
	html     string
	fleet    fleet.Config

	given string // the flags, as they were given, less those that are files
}

const (
	// From manyConns on heartbeats are sent in quanta unless told otherwise: one wakeup for many of
	// them instead of one for each.
	manyConns    = 250_000
	connsPerStep = 10_000 // a millisecond for each so many

	someProbes    = 1000
	probeInterval = time.Second

	minDuration = 20 * time.Second

	// All send their last heartbeat within stormTime.
	stormTime = time.Second
)

// parse reads the flags. Its error is one line.
func parse(args []string, stderr io.Writer) (cfg config, err error) {
	flags := flag.NewFlagSet("loadtest", flag.ContinueOnError)
	flags.SetOutput(io.Discard) // an error is reported once, by the caller
	flags.StringVar(&cfg.addr, "addr", "", "address of an echo-heartbeat server, `host:port` (default servers of its own on free ports)")
	flags.StringVar(&cfg.server, "server", "", "`file` of the echo-heartbeat program, of the baseline, or of the gateway with -nodes, for the servers of its own (default it is built)")
	flags.StringVar(&cfg.baseline, "baseline", "", "instead of echo-heartbeat a server without Heartwheel, `gnet|net`: on gnet, which closes nobody, or with a goroutine and a read deadline per connection")
	flags.IntVar(&cfg.conns, "conns", 10_000, "number of connections")
	procs := flags.String("procs", "auto", "number of server processes, `auto|number`; auto is as many as the descriptor limit of one makes necessary")
	flags.Float64Var(&cfg.silent, "silent", 0.1, "share of the connections that falls silent, 0 to 1; 0 with -nodes where it is not given")
	flags.DurationVar(&cfg.interval, "interval", 2*time.Second, "time between the heartbeats of a connection")
	flags.DurationVar(&cfg.timeout, "timeout", 6*time.Second, "timeout of the server")
	flags.DurationVar(&cfg.tick, "tick", 0, "tick of servers of its own (default 0, theirs)")
	flags.IntVar(&cfg.ramp, "ramp", 5000, "connections opened per second, at most")
	flags.DurationVar(&cfg.duration, "duration", 0, "how long to go on after all connections are open (default 20s, or -timeout and -interval together where that is longer)")
	flags.BoolVar(&cfg.reply, "reply", true, "whether heartbeats are answered; those of the probes are")
	flags.IntVar(&cfg.probes, "probes", 0, "number of connections besides, which speak once a second from a thread of their own and whose round trips count apart (default 0, or 1000 with -reply=false, -storm or -quantum)")
	flags.DurationVar(&cfg.quantum, "quantum", 0, "heartbeats are sent together that are due within this time of each other (default 0, and from 250,000 connections on 1ms for each 10,000)")
	flags.BoolVar(&cfg.storm, "storm", false, "all connections but the probes fall silent within the same second")
	flags.BoolVar(&cfg.netns, "netns", false, "run in a network namespace of its own, with a large table of sockets; for root")
	flags.StringVar(&cfg.json, "json", "", "`file` to write the report to")
	flags.StringVar(&cfg.html, "html", "", "`file` to write a page with plots over time to, for a browser")
	cfg.fleet.Define(flags)
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
	if *procs != "auto" {
		if cfg.procs, err = strconv.Atoi(*procs); err != nil || cfg.procs < 1 {
			return cfg, fmt.Errorf("-procs %s: must be auto or at least 1", *procs)
		}
	}
	given := map[string]bool{}
	flags.Visit(func(f *flag.Flag) {
		given[f.Name] = true
		if f.Name != "server" && f.Name != "json" && f.Name != "html" {
			value := f.Value.String()
			if f.Name == "redis" {
				value = fleet.Redacted(value)
			}
			cfg.given += fmt.Sprintf(" -%s=%v", f.Name, value)
		}
	})
	if cfg.storm && given["silent"] {
		return cfg, fmt.Errorf("-silent %v: with -storm all fall silent", cfg.silent)
	}
	cfg.setDefaults(given)
	if err := cfg.setFleetDefaults(given); err != nil {
		return cfg, err
	}
	return cfg, cfg.check()
}

func (cfg *config) setDefaults(given map[string]bool) {
	if !given["quantum"] && cfg.conns >= manyConns {
		cfg.quantum = time.Duration(cfg.conns/connsPerStep) * time.Millisecond
	}
	if !given["probes"] && (!cfg.reply || cfg.storm || cfg.quantum > 0) {
		cfg.probes = someProbes
	}
	if cfg.storm {
		cfg.silent = 1
	}
	if !given["duration"] {
		cfg.duration = max(minDuration, cfg.leastDuration())
	}
}

// leastDuration is enough for connections to fall silent and be closed.
func (cfg config) leastDuration() time.Duration {
	d := cfg.timeout + cfg.interval
	if cfg.storm {
		d += stormTime
	}
	return d
}

// margin is what a server may take, after the timeout, until a silent connection
// is closed, and for an answer.
func (cfg config) margin() time.Duration { return 2*time.Second + 2*cfg.tick }

// closes reports whether the server closes silent connections.
func (cfg config) closes() bool { return cfg.baseline != "gnet" }

// setFleetDefaults sets the defaults of the fleet, and the settings that depend on it.
func (cfg *config) setFleetDefaults(given map[string]bool) error {
	if err := cfg.fleet.SetDefaults(given); err != nil || cfg.fleet.Nodes == 0 {
		return err
	}
	cfg.fleet.Conns, cfg.fleet.Timeout, cfg.fleet.Tick = cfg.conns, cfg.timeout, cfg.tick
	cfg.fleet.Server, cfg.fleet.Batches = cfg.server, cfg.quantum > 0
	if !given["silent"] {
		cfg.silent = 0
	}
	cfg.probes = 0
	cfg.duration = cfg.fleet.Duration()
	return nil
}

const (
	longest  = 1000 * time.Hour // of all durations
	maxConns = 10_000_000

	// maxProbes fit into the descriptors of one thread.
	maxProbes = 10_000
)

func (cfg config) check() error {
	const ms = time.Millisecond
	switch {
	case cfg.conns < 1 || cfg.conns > maxConns:
		return fmt.Errorf("-conns %d: must be 1 to %d", cfg.conns, maxConns)
	case cfg.procs > cfg.conns:
		return fmt.Errorf("-procs %d: must be at most -conns %d", cfg.procs, cfg.conns)
	case !(cfg.silent >= 0 && cfg.silent <= 1): // nor NaN
		return fmt.Errorf("-silent %v: must be 0 to 1", cfg.silent)
	case cfg.ramp < 1:
		return fmt.Errorf("-ramp %d: must be at least 1", cfg.ramp)
	case cfg.interval < ms:
		return fmt.Errorf("-interval %v: must be at least 1ms", cfg.interval)
	case cfg.timeout > longest: // before it is added to others
		return fmt.Errorf("-timeout %v: must be at most %v", cfg.timeout, longest)
	case cfg.fleet.Nodes == 0 && cfg.duration > longest:
		return fmt.Errorf("-duration %v: must be at most %v", cfg.duration, longest)
	case cfg.tick != 0 && (cfg.tick < ms || cfg.tick > cfg.timeout):
		return fmt.Errorf("-tick %v: must be 1ms to -timeout %v, or 0", cfg.tick, cfg.timeout)
	case cfg.timeout <= cfg.interval:
		return fmt.Errorf("-timeout %v: must be longer than -interval %v, or live connections are closed", cfg.timeout, cfg.interval)
	case cfg.fleet.Nodes == 0 && cfg.duration < cfg.leastDuration() && cfg.storm:
		return fmt.Errorf("-duration %v: must be at least %v, which are -timeout %v, -interval %v, and %v in which all fall silent",
			cfg.duration, cfg.leastDuration(), cfg.timeout, cfg.interval, stormTime)
	case cfg.fleet.Nodes == 0 && cfg.duration < cfg.leastDuration():
		return fmt.Errorf("-duration %v: must be at least %v, which are -timeout %v and -interval %v",
			cfg.duration, cfg.leastDuration(), cfg.timeout, cfg.interval)
	case cfg.probes < 0 || cfg.probes > maxProbes:
		return fmt.Errorf("-probes %d: must be 0 to %d", cfg.probes, maxProbes)
	case cfg.probes > 0 && cfg.timeout <= probeInterval:
		return fmt.Errorf("-timeout %v: must be longer than the %v between the heartbeats of the probes", cfg.timeout, probeInterval)
	case cfg.quantum < 0 || cfg.quantum > cfg.interval/2:
		return fmt.Errorf("-quantum %v: must be 0 to half of -interval %v", cfg.quantum, cfg.interval)
	}
	return cfg.checkServer()
}

func (cfg config) checkServer() error {
	switch {
	case cfg.baseline != "" && cfg.baseline != "gnet" && cfg.baseline != "net":
		return fmt.Errorf("-baseline %q: must be gnet or net", cfg.baseline)
	case cfg.addr != "" && (cfg.baseline != "" || cfg.procs > 0 || cfg.server != ""):
		return fmt.Errorf("-addr %s: -server, -baseline and -procs are about servers of its own", cfg.addr)
	case cfg.addr != "" && cfg.netns:
		return fmt.Errorf("-addr %s: can't be reached from the network namespace of -netns", cfg.addr)
	case cfg.storm && cfg.timeout <= cfg.interval+stormTime:
		return fmt.Errorf("-timeout %v: must be longer than -interval %v and the %v in which all fall silent", cfg.timeout, cfg.interval, stormTime)
	case cfg.storm && !cfg.closes():
		return fmt.Errorf("-storm: the server of -baseline %s closes nobody", cfg.baseline)
	}
	return cfg.checkFleet()
}

func (cfg config) checkFleet() error {
	if err := cfg.fleet.Check(longest); err != nil || cfg.fleet.Nodes == 0 {
		return err
	}
	switch {
	case cfg.silent > 0 && cfg.fleet.Rolling:
		return fmt.Errorf("-silent %v: with -rolling nobody is to be offline", cfg.silent)
	case cfg.silent > 0 && cfg.duration < cfg.leastDuration():
		return fmt.Errorf("-silent %v: takes -timeout %v and -interval %v, and this run takes %v (see -steady)", cfg.silent, cfg.timeout, cfg.interval, cfg.duration)
	case cfg.fleet.Redis != "" && cfg.netns:
		return fmt.Errorf("-redis %s: can't be reached from the network namespace of -netns", fleet.Redacted(cfg.fleet.Redis))
	}
	return nil
}
