// Command deploy tries a deploy that nobody notices. Clients with long connections to servers behind HAProxy send
// requests, while each server is restarted in turn, several times. It counts what the clients noticed.
//
//	deploy
//	deploy -clients 2000 -rounds 1
//	deploy -kill
//
// server.go is the server to copy: readiness that fails first, the wait for the balancer, goodbyes spread over a time,
// sessions that are left to be resumed. client.go is the client: heartbeats, and reconnects with jitter.
// It runs twice, without a fleet and with one. HAProxy, Redis, the servers and the clients are processes of its own,
// on the loopback interface, and end with it. A balancer needs two descriptors for each client, so there is one for
// each 8,000 clients.
//
// With -kill the servers are killed, for comparison, and the verdict is a failure.
//
// It ends with exit code 0 if nobody noticed, 1 if somebody did, and 2 for flags that make no sense.
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
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/heartwheel-go/heartwheel/examples/internal/example"
)

const (
	exitFailure = 1
	exitUsage   = 2

	// asServer and asClients are the first arguments of the processes of this program.
	asServer  = "server"
	asClients = "clients"

	maxClients = 50_000
	maxServers = 20
	maxTime    = time.Hour
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, stop) // a second signal ends the process at once
	redis.SetLogger(quiet{})
	run := run
	if len(os.Args) > 1 && os.Args[1] == asServer {
		run = runServer
	} else if len(os.Args) > 1 && os.Args[1] == asClients {
		run = runClients
	}
	args := os.Args[1:]
	if len(args) > 0 && (args[0] == asServer || args[0] == asClients) {
		args = args[1:]
	}
	os.Exit(run(ctx, args, os.Stdout, os.Stderr))
}

// quiet keeps the client of Redis from writing to stderr: it returns the same errors.
type quiet struct{}

func (quiet) Printf(context.Context, string, ...any) {}

// config are the flags.
type config struct {
	clients, servers, rounds  int
	delay, drain, every, back time.Duration
	fleet                     string
	kill                      bool
}

func read(args []string, stderr io.Writer) (config, error) {
	var cfg config
	flags := flag.NewFlagSet("deploy", flag.ContinueOnError)
	flags.IntVar(&cfg.clients, "clients", 10_000, "how many clients there are")
	flags.IntVar(&cfg.servers, "servers", 3, "how many servers")
	flags.IntVar(&cfg.rounds, "rounds", 3, "how many rolling restarts: each restarts all servers, one after the other")
	flags.DurationVar(&cfg.delay, "delay", 2*time.Second, "how long a server goes on after it has reported not to be ready: the balancer needs half of it to notice")
	flags.DurationVar(&cfg.drain, "drain", 5*time.Second, "how long a server spreads its goodbyes over")
	flags.DurationVar(&cfg.every, "every", 5*time.Second, "how often a client sends a request, on average")
	flags.DurationVar(&cfg.back, "back", 10*time.Second, "how long a client may be without a server")
	flags.StringVar(&cfg.fleet, "fleet", "both", "whether sessions are known to all servers, by Redis, `yes|no|both`")
	flags.BoolVar(&cfg.kill, "kill", false, "kill the servers, for comparison")
	if err := example.Parse(flags, args, stderr); err != nil {
		return cfg, err
	}
	return cfg, cfg.check()
}

func (cfg config) check() error {
	for _, f := range []struct {
		name             string
		value, low, high int
	}{
		{"clients", cfg.clients, 1, maxClients},
		{"servers", cfg.servers, 2, maxServers},
		{"rounds", cfg.rounds, 1, 1000},
	} {
		if f.value < f.low || f.value > f.high {
			return fmt.Errorf("invalid value %d for flag -%s: must be from %d to %d", f.value, f.name, f.low, f.high)
		}
	}
	for _, f := range []struct {
		name       string
		value, low time.Duration
	}{
		{"delay", cfg.delay, 100 * time.Millisecond},
		{"drain", cfg.drain, 0},
		{"every", cfg.every, time.Millisecond},
		{"back", cfg.back, time.Millisecond},
	} {
		if f.value < f.low || f.value > maxTime {
			return fmt.Errorf("invalid value %v for flag -%s: must be from %v to %v", f.value, f.name, f.low, maxTime)
		}
	}
	switch cfg.fleet {
	case "yes", "no", "both":
		return nil
	}
	return fmt.Errorf("invalid value %q for flag -fleet: must be yes, no or both", cfg.fleet)
}

func run(ctx context.Context, args []string, stdout, stderr io.Writer) (exit int) {
	cfg, err := read(args, stderr)
	if errors.Is(err, flag.ErrHelp) {
		return 0
	}
	if err != nil {
		fmt.Fprintf(stderr, "deploy: %v\n", err)
		return exitUsage
	}
	for _, fleet := range []bool{false, true} {
		if cfg.fleet == "yes" && !fleet || cfg.fleet == "no" && fleet {
			continue
		}
		pass, err := newDeploy(cfg, fleet, stdout).play(ctx)
		if err != nil {
			fmt.Fprintf(stderr, "deploy: %v\n", err)
		}
		if ctx.Err() != nil {
			return exitFailure
		}
		if !pass {
			exit = exitFailure
		}
	}
	return exit
}
