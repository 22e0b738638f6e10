// Command fleet shows package fleet, in one command: three gateways, some hundred
// clients, and a page with the place of each session. One gateway is killed, another one is
// shut down, and a client is kicked. Then it says whether the gateways have told the truth.
//
//	fleet
//	fleet -stay -http 127.0.0.1:8080
//
// Redis, the gateways and the clients are its own, and end with it. The gateways are
// examples/fleet/gateway, as processes of this program: processes can be killed.
//
// The page also answers GET /presence/{session} and GET /count, as JSON.
//
// It ends with exit code 0 if all was as it should be, 1 if not, and 2 for flags that make no
// sense. With -stay it ends on SIGINT. A second signal ends it at once.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"time"

	"github.com/heartwheel-go/heartwheel/examples/fleet/internal/gateway"
	"github.com/heartwheel-go/heartwheel/examples/internal/example"
	"github.com/heartwheel-go/heartwheel/fleet"
)

const (
	exitFailure = 1
	exitUsage   = 2

	// asGateway is the first argument of a gateway's process.
	asGateway = "gateway"

	minSessions = 10
	maxSessions = 5000
	minLease    = time.Second
)

func main() {
	ctx := gateway.UntilSignal()
	gateway.QuietRedis()
	if len(os.Args) > 1 && os.Args[1] == asGateway {
		os.Exit(gateway.Main(ctx, os.Args[2:], os.Stdout, os.Stderr))
	}
	os.Exit(run(ctx, os.Args[1:], os.Stdout, os.Stderr))
}

// config are the demo's settings.
type config struct {
	redis    string
	http     string
	sessions int
	lease    time.Duration
	renew    time.Duration
	stay     bool
}

func read(args []string, stderr io.Writer) (config, error) {
	var cfg config
	flags := flag.NewFlagSet("fleet", flag.ContinueOnError)
	flags.StringVar(&cfg.redis, "redis", "", "`URL` of Redis (empty: one of its own)")
	flags.StringVar(&cfg.http, "http", "127.0.0.1:0", "address of the page, `host:port`; port 0 is any free one")
	flags.IntVar(&cfg.sessions, "sessions", 300, "how many clients there are")
	flags.DurationVar(&cfg.lease, "lease", 6*time.Second, "how long sessions outlive their node")
	flags.DurationVar(&cfg.renew, "renew", 0, "how often leases are extended (0: a third of the lease)")
	flags.BoolVar(&cfg.stay, "stay", false, "go on after the verdict, until SIGINT")
	if err := example.Parse(flags, args, stderr); err != nil {
		return cfg, err
	}
	if cfg.renew == 0 {
		cfg.renew = cfg.lease / 3
	}
	return cfg, cfg.check()
}

func (cfg config) check() error {
	switch {
	case cfg.sessions < minSessions || cfg.sessions > maxSessions:
		return fmt.Errorf("invalid value %d for flag -sessions: must be from %d to %d", cfg.sessions, minSessions, maxSessions)
	case cfg.lease < minLease:
		return fmt.Errorf("invalid value %v for flag -lease: must be at least %v", cfg.lease, minLease)
	case cfg.renew < minLease/10 || cfg.renew > cfg.lease/5*2:
		return fmt.Errorf("invalid value %v for flag -renew: must be from %v to %v, two fifths of the lease", cfg.renew, minLease/10, cfg.lease/5*2)
	case cfg.http == "":
		return errors.New(`invalid value "" for flag -http: must be host:port`)
	}
	if _, err := net.ResolveTCPAddr("tcp", cfg.http); err != nil {
		return fmt.Errorf("invalid value %q for flag -http: %w", cfg.http, err)
	}
	return cfg.presence("").Validate()
}

// presence returns the config of a lookup-only node.
func (cfg config) presence(prefix string) fleet.Config {
	return fleet.Config{
		Node: "presence", Prefix: prefix, Lease: cfg.lease, Renew: cfg.renew, Timeout: cfg.redisTimeout(),
		Logger: slog.New(slog.DiscardHandler), // its calls return errors
	}
}

// redisTimeout is as long as it can be. After two renewals the rest of the lease is for two
// calls to Redis and a look for ended sessions.
func (cfg config) redisTimeout() time.Duration { return (cfg.lease - 2*cfg.renew) / 5 * 2 }

func run(ctx context.Context, args []string, stdout, stderr io.Writer) (exit int) {
	cfg, err := read(args, stderr)
	if errors.Is(err, flag.ErrHelp) {
		return 0
	}
	if err != nil {
		fmt.Fprintf(stderr, "fleet: %v\n", err)
		return exitUsage
	}
	d := newDemo(cfg, stdout)
	defer d.close()
	err = d.open(ctx)
	opened, pass := err == nil, false
	if opened {
		pass, err = d.play(ctx)
	}
	switch {
	case ctx.Err() != nil:
		d.say("interrupted")
		return exitFailure
	case errors.Is(err, fleet.ErrArgument):
		exit = exitUsage
	case !pass:
		exit = exitFailure
	}
	if err != nil {
		fmt.Fprintf(stderr, "fleet: %v\n", err)
	}
	if cfg.stay && opened {
		d.say("all goes on until Ctrl-C")
		<-ctx.Done()
	}
	return exit
}
