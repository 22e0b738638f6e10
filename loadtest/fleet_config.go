package main

import (
	"cmp"
	"flag"
	"fmt"
	"net/url"
	"time"
)

// fleetConfig is what is done with a fleet of gateways, whose connections are sessions.
type fleetConfig struct {
	nodes       int           // gateways; 0 is no fleet
	redis       string        // URL; empty is one of our own
	lease       time.Duration // how long a session outlives its node
	renew       time.Duration
	nodeLease   time.Duration // 0 is none
	callTimeout time.Duration // of calls to Redis; 0 is the gateway's default
	kill        int           // nodes that are killed
	back        float64       // share of their clients that come back
	rolling     bool
	steadyFor   time.Duration // from when all sessions are there until something happens
}

const (
	maxNodes = 64
	minLease = time.Second

	// Where nodes have leases, those of sessions are longLease, and who was drained has at most
	// longResume to be resumed.
	longLease  = 10 * time.Minute
	longResume = 90 * time.Second

	// grace is how much later than a lease after its death the sessions of a node must all be
	// offline or elsewhere.
	grace = time.Second

	// telling is how much longer than that an end may take until it is read here.
	telling = 2 * time.Second

	// speaking is how often nodes say their figures, and reporting is how long that may take.
	speaking  = time.Second
	reporting = 5 * time.Second
)

// fleetFlags are those that mean something with -nodes only, and noFleet those that mean nothing
// with it.
var (
	fleetFlags = []string{"redis", "lease", "renew", "node-lease", "redis-timeout", "kill", "return", "rolling", "steady"}
	noFleet    = []string{"addr", "baseline", "procs", "storm", "probes", "duration"}
)

func (cfg *fleetConfig) defineFleet(flags *flag.FlagSet) {
	flags.IntVar(&cfg.nodes, "nodes", 0, "`number` of gateways of a fleet, whose connections are sessions in Redis, instead of echo-heartbeat servers (default 0, no fleet)")
	flags.StringVar(&cfg.redis, "redis", "", "`URL` of the fleet's Redis, in which keys of the sessions are left that begin with what the report says, loadtest- and eight digits (default one of its own)")
	flags.DurationVar(&cfg.lease, "lease", 90*time.Second, "how long a session of the fleet outlives its node, 10m with -node-lease")
	flags.DurationVar(&cfg.renew, "renew", 0, "how often the fleet extends a lease (default a third of -lease)")
	flags.DurationVar(&cfg.nodeLease, "node-lease", 0, "how long all of a node's sessions outlive it, whose own leases are then for the worst (default 0: there are only those)")
	flags.DurationVar(&cfg.callTimeout, "redis-timeout", 0, "how long a call of the fleet to Redis may take (default a sixth of -renew or of a third of -node-lease, at most 3s)")
	flags.IntVar(&cfg.kill, "kill", 0, "number of nodes that are killed, at most half (default 1, or 0 with one node or -rolling)")
	flags.Float64Var(&cfg.back, "return", 0.5, "share of the killed nodes' clients that come back within a lease, 0 to 1")
	flags.BoolVar(&cfg.rolling, "rolling", false, "instead of being killed, each node is ended in turn, while its clients go to others, and started anew")
	flags.DurationVar(&cfg.steadyFor, "steady", 0, "how long nothing happens to the fleet before that (default two of -renew or -node-lease, at least 5s)")
}

// redacted returns a URL as it may be shown: without its password.
func redacted(text string) string {
	u, err := url.Parse(text)
	if err != nil {
		return "?"
	}
	return u.Redacted()
}

// setFleetDefaults knows which flags were given.
func (cfg *config) setFleetDefaults(given map[string]bool) error {
	for _, name := range fleetFlags {
		if given[name] && cfg.nodes == 0 {
			return fmt.Errorf("-%s: is about a fleet, which -nodes makes", name)
		}
	}
	if cfg.nodes == 0 {
		return nil
	}
	for _, name := range noFleet {
		if given[name] {
			return fmt.Errorf("-%s: means nothing with a fleet, -nodes %d", name, cfg.nodes)
		}
	}
	if !given["silent"] {
		cfg.silent = 0
	}
	if !given["lease"] && cfg.nodeLease > 0 {
		cfg.lease = longLease
	}
	if !given["renew"] {
		cfg.renew = cfg.lease / 3
	}
	if !given["kill"] && cfg.nodes > 1 && !cfg.rolling {
		cfg.kill = 1
	}
	if !given["steady"] {
		cfg.steadyFor = max(2*cmp.Or(cfg.nodeLease, cfg.renew), 5*time.Second)
	}
	cfg.probes = 0
	cfg.duration = cfg.steadyFor + cfg.aftermath()
	return nil
}

// detectable is how long after its death the sessions of a node are told to be offline at the
// latest, and grace.
func (cfg fleetConfig) detectable() time.Duration {
	if cfg.nodeLease > 0 {
		return cfg.nodeLease + grace
	}
	return cfg.lease + grace
}

// surely is how long sessions outlive their node at least: its last extension may have been as long
// ago as they come after each other. That of a node's lease comes several times in it.
func (cfg fleetConfig) surely() time.Duration {
	if cfg.nodeLease > 0 {
		return cfg.nodeLease / 2
	}
	return (cfg.lease - cfg.renew) * 9 / 10
}

// comebacks is within which those come back who do.
func (cfg fleetConfig) comebacks() time.Duration { return cfg.detectable() - grace }

// resume is how long who was drained may take to be resumed.
func (cfg fleetConfig) resume() time.Duration {
	if cfg.nodeLease > 0 {
		return min(cfg.lease, longResume)
	}
	return cfg.lease
}

// aftermath is how long to look at what comes of something, margin aside.
func (cfg fleetConfig) aftermath() time.Duration {
	switch {
	case cfg.kill > 0:
		return cfg.detectable()
	case cfg.rolling:
		return cfg.resume() + grace
	}
	return 0
}

// checkFleet looks at the fields of a fleet.
func (cfg config) checkFleet() error {
	switch {
	case cfg.nodes < 0 || cfg.nodes > maxNodes || cfg.nodes > cfg.conns:
		return fmt.Errorf("-nodes %d: must be 0 to %d, and at most -conns %d", cfg.nodes, maxNodes, cfg.conns)
	case cfg.nodes == 0:
		return nil
	case cfg.lease < minLease || cfg.lease > longest:
		return fmt.Errorf("-lease %v: must be %v to %v", cfg.lease, minLease, longest)
	case cfg.renew < time.Millisecond || cfg.renew > cfg.lease/2:
		return fmt.Errorf("-renew %v: must be 1ms to half of -lease %v", cfg.renew, cfg.lease)
	case cfg.nodeLease < 0 || cfg.nodeLease > cfg.lease:
		return fmt.Errorf("-node-lease %v: must be 0 to -lease %v", cfg.nodeLease, cfg.lease)
	case cfg.callTimeout < 0:
		return fmt.Errorf("-redis-timeout %v: must not be negative", cfg.callTimeout)
	case cfg.steadyFor < time.Second || cfg.steadyFor > longest:
		return fmt.Errorf("-steady %v: must be 1s to %v", cfg.steadyFor, longest)
	}
	return cfg.checkEvents()
}

// checkEvents looks at what is to happen to the fleet.
func (cfg config) checkEvents() error {
	switch {
	case cfg.rolling && cfg.kill > 0:
		return fmt.Errorf("-kill %d: with -rolling nodes are ended, not killed", cfg.kill)
	case cfg.rolling && cfg.nodes < 2:
		return fmt.Errorf("-nodes %d: must be at least 2 with -rolling", cfg.nodes)
	case cfg.kill < 0 || cfg.kill > cfg.nodes/2:
		return fmt.Errorf("-kill %d: must be 0 to half of -nodes %d: when most of a fleet dies, it waits for another lease", cfg.kill, cfg.nodes)
	case !(cfg.back >= 0 && cfg.back <= 1): // nor NaN
		return fmt.Errorf("-return %v: must be 0 to 1", cfg.back)
	case cfg.silent > 0 && cfg.rolling:
		return fmt.Errorf("-silent %v: with -rolling nobody is to be offline", cfg.silent)
	case cfg.silent > 0 && cfg.duration < cfg.leastDuration():
		return fmt.Errorf("-silent %v: takes -timeout %v and -interval %v, and this run takes %v (see -steady)", cfg.silent, cfg.timeout, cfg.interval, cfg.duration)
	case cfg.redis != "" && cfg.netns:
		return fmt.Errorf("-redis %s: can't be reached from the network namespace of -netns", redacted(cfg.redis))
	}
	return nil
}
