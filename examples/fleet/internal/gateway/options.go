package gateway

import (
	"cmp"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"os"
	"time"

	"github.com/heartwheel-go/heartwheel/examples/internal/example"
	"github.com/heartwheel-go/heartwheel/fleet"
	"github.com/heartwheel-go/heartwheel/server"
)

const defaultRedis = "redis://127.0.0.1:6379"

// options are the gateway's settings. The server and the fleet check their own.
type options struct {
	server    server.Config
	redis     string
	fleet     fleet.Config
	grace     time.Duration
	drain     time.Duration
	logFormat string
}

func read(args []string, stderr io.Writer) (options, error) {
	var o options
	flags := flag.NewFlagSet("gateway", flag.ContinueOnError)
	flags.StringVar(&o.server.Addr, "addr", "127.0.0.1:0", "address to listen on, `host:port`; port 0 is any free one")
	flags.DurationVar(&o.server.Timeout, "timeout", 30*time.Second, "how long a connection may be without a whole line")
	flags.DurationVar(&o.server.Tick, "tick", 0, "how precise that is (0: 10ms, less for a timeout under 100ms)")
	flags.DurationVar(&o.grace, "hello", 10*time.Second, "how long a connection may take to have a session (0: for ever)")
	flags.IntVar(&o.server.Room.MaxConns, "max-conns", 0, "connections at a time (0: as many as the descriptor limit has room for)")
	flags.StringVar(&o.redis, "redis", cmp.Or(os.Getenv("REDIS_URL"), defaultRedis), "`URL` of Redis")
	flags.StringVar(&o.fleet.Node, "name", "", "`name` of this node (empty: its address)")
	flags.StringVar(&o.fleet.Prefix, "prefix", "", "what keys in Redis begin with (empty: fleet)")
	flags.DurationVar(&o.fleet.Lease, "lease", 0, "how long sessions outlive their node (0: 90s, or 10m with -node-lease)")
	flags.DurationVar(&o.fleet.NodeLease, "node-lease", 0, "how long this node may be away until all of its sessions end, which then are written once in minutes (0: only they have leases)")
	flags.DurationVar(&o.fleet.Resume, "resume", 0, "how long sessions that were left wait to be resumed (0: as the lease, or 90s where that is less with -node-lease)")
	flags.DurationVar(&o.fleet.Renew, "renew", 0, "how often leases are extended (0: a third of the lease)")
	flags.DurationVar(&o.fleet.Timeout, "redis-timeout", 0, "how long a call to Redis may take (0: a sixth of -renew or of a third of -node-lease, at most 3s)")
	flags.IntVar(&o.fleet.Slots, "slots", 0, "parts in which Redis keeps sessions, which the first node decides (0: 16)")
	flags.Float64Var(&o.fleet.MaxExpire, "max-expire", 0, "`share` of the sessions that may expire at once (0: 0.6; negative: all)")
	flags.BoolVar(&o.fleet.Outlive, "outlive", false, "serve on when Redis is away for longer than a lease")
	flags.DurationVar(&o.drain, "drain", 10*time.Second, "how long leaving the sessions to others may take at the end")
	flags.StringVar(&o.logFormat, "log-format", "text", "format of the log on stderr, `text|json`")
	if err := example.Parse(flags, args, stderr); err != nil {
		return o, err
	}
	return o, o.check()
}

func (o options) check() error {
	switch {
	case o.grace < 0:
		return fmt.Errorf("invalid value %v for flag -hello: must not be negative", o.grace)
	case o.drain < 0:
		return fmt.Errorf("invalid value %v for flag -drain: must not be negative", o.drain)
	case o.logFormat != "text" && o.logFormat != "json":
		return fmt.Errorf("invalid value %q for flag -log-format: must be text or json", o.logFormat)
	}
	return nil
}

func (o options) logger(stderr io.Writer) *slog.Logger {
	if o.logFormat == "json" {
		return slog.New(slog.NewJSONHandler(stderr, nil))
	}
	return slog.New(slog.NewTextHandler(stderr, nil))
}
