package main

import (
	"context"
	"fmt"
	"os"
	"runtime"
	"strconv"

	"github.com/heartwheel-go/heartwheel/loadtest/internal/child"
	"github.com/heartwheel-go/heartwheel/loadtest/internal/proc"
)

const module = "github.com/heartwheel-go/heartwheel"

// startServers builds the server, starts the processes of the plan, and waits until they listen. The
// thread must be locked, and stay until they are stopped.
func startServers(ctx context.Context, cfg config, p plan) (_ *child.Group, err error) {
	g := new(child.Group)
	defer func() {
		if err != nil {
			g.Kill()
		}
	}()
	binary := cfg.server
	if binary == "" {
		if binary, err = build(ctx, g, cfg.serverPackage()); err != nil {
			return nil, err
		}
	}
	if cfg.quantum > 0 {
		defer proc.WorkInBatches()() // the servers inherit it
	}
	for range p.procs {
		c, err := child.Start(binary, cfg.serverArgs(p), p.serverEnv())
		if err != nil {
			return nil, err
		}
		g.Add(c)
	}
	return g, g.Listen(ctx)
}

func (cfg config) serverPackage() string {
	if cfg.baseline != "" {
		return module + "/loadtest/baseline"
	}
	return module + "/cmd/echo-heartbeat"
}

func (cfg config) serverArgs(p plan) []string {
	args := []string{"-addr", "127.0.0.1:0", "-timeout", cfg.timeout.String()}
	if cfg.baseline != "" {
		return append(args, "-kind", cfg.baseline)
	}
	if cfg.tick > 0 {
		args = append(args, "-tick", cfg.tick.String())
	}
	return append(args,
		"-max-conns", strconv.Itoa(divideUp(cfg.conns, p.procs)+divideUp(cfg.probes, p.procs)),
		"-log-format", "json")
}

// serverEnv shares the processors out: more event loops than processors would only take turns, at a
// quarter more processor time in measurements.
func (p plan) serverEnv() []string {
	procs := max(1, runtime.NumCPU()/p.procs)
	if p.procs == 1 || os.Getenv("GOMAXPROCS") != "" {
		return nil // this program's
	}
	return append(os.Environ(), "GOMAXPROCS="+strconv.Itoa(procs))
}

func build(ctx context.Context, g *child.Group, pkg string) (binary string, err error) {
	dir, err := g.Dir()
	if err != nil {
		return "", fmt.Errorf("building the server: %w", err)
	}
	binary, err = child.Build(ctx, dir, pkg)
	if err != nil {
		return "", fmt.Errorf("%w (use -server or -addr outside of Heartwheel's own folder)", err)
	}
	return binary, nil
}
