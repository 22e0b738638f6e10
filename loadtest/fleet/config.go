package fleet

import (
	"cmp"
	"flag"
	"fmt"
	"net/url"
	"time"
)

// Config is the flags about a fleet, and the fleet's part of the run's other settings.
type Config struct {
	Nodes       int           // gateways; 0 is no fleet
	Redis       string        // URL; empty is one of our own
	Lease       time.Duration // from a node's death to the end of its sessions
	Renew       time.Duration
	NodeLease   time.Duration // 0 is none
	CallTimeout time.Duration // of calls to Redis; 0 is the gateway's default
	Kill        int           // nodes to be killed
	Back        float64       // share of their clients to come back
	Rolling     bool
	Steady      time.Duration // from the last of all sessions until something happens

	Conns   int
	Timeout time.Duration // of the gateways
	Tick    time.Duration // of the gateways
	Server  string        // file of the gateway; empty is one to be built
	Batches bool          // the scheduler's policy for batch jobs
}

const (
	maxNodes = 64
	minLease = time.Second

	// longLease is the lease of sessions if nodes have leases, and longResume is the longest time to
	// resume a session after a drain then.
	longLease  = 10 * time.Minute
	longResume = 90 * time.Second

	// A node's sessions must all be offline or elsewhere a lease and grace after its death.
	grace = time.Second

	// telling is how much longer the news of an end may take to this program. A lease may also end so
	// much sooner, if a busy node has extended it late.
	telling = 2 * time.Second

	// Nodes say their figures each speaking; it may take reporting.
	speaking  = time.Second
	reporting = 5 * time.Second
)

// Flags are the names of the flags for a fleet only.
var Flags = []string{"redis", "lease", "renew", "node-lease", "redis-timeout", "kill", "return", "rolling", "steady"}

// others are the names of the flags for anything but a fleet.
var others = []string{"addr", "baseline", "procs", "storm", "probes", "duration"}

// Define defines the flags.
func (cfg *Config) Define(flags *flag.FlagSet) {
	flags.IntVar(&cfg.Nodes, "nodes", 0, "`number` of gateways of a fleet, whose connections are sessions in Redis, instead of echo-heartbeat servers (default 0, no fleet)")
	flags.StringVar(&cfg.Redis, "redis", "", "`URL` of the fleet's Redis, in which keys of the sessions are left that begin with what the report says, loadtest- and eight digits (default one of its own)")
	flags.DurationVar(&cfg.Lease, "lease", 90*time.Second, "how long a session of the fleet outlives its node, 10m with -node-lease")
	flags.DurationVar(&cfg.Renew, "renew", 0, "how often the fleet extends a lease (default a third of -lease)")
	flags.DurationVar(&cfg.NodeLease, "node-lease", 0, "how long all of a node's sessions outlive it, whose own leases are then for the worst (default 0: there are only those)")
	flags.DurationVar(&cfg.CallTimeout, "redis-timeout", 0, "how long a call of the fleet to Redis may take (default a sixth of -renew or of a third of -node-lease, at most 3s)")
	flags.IntVar(&cfg.Kill, "kill", 0, "number of nodes that are killed, at most half (default 1, or 0 with one node or -rolling)")
	flags.Float64Var(&cfg.Back, "return", 0.5, "share of the killed nodes' clients that come back within a lease, 0 to 1")
	flags.BoolVar(&cfg.Rolling, "rolling", false, "instead of being killed, each node is ended in turn, while its clients go to others, and started anew")
	flags.DurationVar(&cfg.Steady, "steady", 0, "how long nothing happens to the fleet before that (default two of -renew or -node-lease, at least 5s)")
}

// Redacted returns a URL without its password.
func Redacted(text string) string {
	u, err := url.Parse(text)
	if err != nil {
		return "?"
	}
	return u.Redacted()
}

// SetDefaults sets the defaults of the flags. given are the names of all flags on the command line. A
// flag without a meaning there is an error.
func (cfg *Config) SetDefaults(given map[string]bool) error {
	for _, name := range Flags {
		if given[name] && cfg.Nodes == 0 {
			return fmt.Errorf("-%s: is about a fleet, which -nodes makes", name)
		}
	}
	if cfg.Nodes == 0 {
		return nil
	}
	for _, name := range others {
		if given[name] {
			return fmt.Errorf("-%s: means nothing with a fleet, -nodes %d", name, cfg.Nodes)
		}
	}
	if !given["lease"] && cfg.NodeLease > 0 {
		cfg.Lease = longLease
	}
	if !given["renew"] {
		cfg.Renew = cfg.Lease / 3
	}
	if !given["kill"] && cfg.Nodes > 1 && !cfg.Rolling {
		cfg.Kill = 1
	}
	if !given["steady"] {
		cfg.Steady = max(2*cmp.Or(cfg.NodeLease, cfg.Renew), 5*time.Second)
	}
	return nil
}

// Duration is how long a run takes from the last of all sessions on, without the margin.
func (cfg Config) Duration() time.Duration { return cfg.Steady + cfg.aftermath() }

// detectable is the longest time from a node's death to the news that its sessions are offline.
func (cfg Config) detectable() time.Duration {
	if cfg.NodeLease > 0 {
		return cfg.NodeLease + grace
	}
	return cfg.Lease + grace
}

// surely is the shortest time from a node's death to the end of a session: the node may have extended
// the lease a renewal ago. It extends its own lease several times in a lease.
func (cfg Config) surely() time.Duration {
	if cfg.NodeLease > 0 {
		return cfg.NodeLease / 2
	}
	return (cfg.Lease - cfg.Renew) * 9 / 10
}

// comebacks is the time for clients of killed nodes to come back, if they do.
func (cfg Config) comebacks() time.Duration { return cfg.detectable() - grace }

// resume is the time to resume a session after a drain.
func (cfg Config) resume() time.Duration {
	if cfg.NodeLease > 0 {
		return min(cfg.Lease, longResume)
	}
	return cfg.Lease
}

// aftermath is the time for the consequences of an event, without the margin.
func (cfg Config) aftermath() time.Duration {
	switch {
	case cfg.Kill > 0:
		return cfg.detectable()
	case cfg.Rolling:
		return cfg.resume() + grace
	}
	return 0
}

// Check returns an error for impossible settings. longest is the limit of all durations.
func (cfg Config) Check(longest time.Duration) error {
	switch {
	case cfg.Nodes < 0 || cfg.Nodes > maxNodes || cfg.Nodes > cfg.Conns:
		return fmt.Errorf("-nodes %d: must be 0 to %d, and at most -conns %d", cfg.Nodes, maxNodes, cfg.Conns)
	case cfg.Nodes == 0:
		return nil
	case cfg.Lease < minLease || cfg.Lease > longest:
		return fmt.Errorf("-lease %v: must be %v to %v", cfg.Lease, minLease, longest)
	case cfg.Renew < time.Millisecond || cfg.Renew > cfg.Lease/2:
		return fmt.Errorf("-renew %v: must be 1ms to half of -lease %v", cfg.Renew, cfg.Lease)
	case cfg.NodeLease < 0 || cfg.NodeLease > cfg.Lease:
		return fmt.Errorf("-node-lease %v: must be 0 to -lease %v", cfg.NodeLease, cfg.Lease)
	case cfg.CallTimeout < 0:
		return fmt.Errorf("-redis-timeout %v: must not be negative", cfg.CallTimeout)
	case cfg.Steady < time.Second || cfg.Steady > longest:
		return fmt.Errorf("-steady %v: must be 1s to %v", cfg.Steady, longest)
	}
	return cfg.checkEvents()
}

// checkEvents looks at what is to happen to the fleet.
func (cfg Config) checkEvents() error {
	switch {
	case cfg.Rolling && cfg.Kill > 0:
		return fmt.Errorf("-kill %d: with -rolling nodes are ended, not killed", cfg.Kill)
	case cfg.Rolling && cfg.Nodes < 2:
		return fmt.Errorf("-nodes %d: must be at least 2 with -rolling", cfg.Nodes)
	case cfg.Kill < 0 || cfg.Kill > cfg.Nodes/2:
		return fmt.Errorf("-kill %d: must be 0 to half of -nodes %d: when most of a fleet dies, it waits for another lease", cfg.Kill, cfg.Nodes)
	case !(cfg.Back >= 0 && cfg.Back <= 1): // nor NaN
		return fmt.Errorf("-return %v: must be 0 to 1", cfg.Back)
	}
	return nil
}
