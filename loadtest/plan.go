package main

import (
	"fmt"
	"io"
	"runtime"

	"github.com/heartwheel-go/heartwheel/internal/rlimit"
)

// plan is how a run is spread over processes and threads.
type plan struct {
	limit    int  // of descriptors per process
	procs    int  // servers of its own
	workers  int  // besides that of the probes
	ownFiles bool // each worker has descriptors of its own
}

const (
	// spareFiles is how many descriptors this program needs besides its
	// connections.
	spareFiles = 64

	// perWorker is the number of connections of a worker if nothing limits it.
	perWorker = 25_000
)

// serverSpare is the largest number of descriptors that a server needs besides its connections, under
// a limit.
func serverSpare(limit int) int { return 256 + limit/16 }

// newPlan raises the descriptor limit as far as necessary and possible, and
// spreads the connections over as many processes and threads as it then takes.
//
// Each server has a port of its own: with one port for all (SO_REUSEPORT) the kernel spreads connections unevenly, and
// one server is full while others have room. The client's side is one process, with a table of descriptors for each
// thread. Several processes take some 10 MB each, and must add up their histograms and agree on the end of the ramp.
func newPlan(cfg config) (plan, error) {
	total := cfg.conns + cfg.probes
	want := total + total/8 + 2*serverSpare(0)
	limit, err := rlimit.Raise(want)
	p := plan{limit: limit, procs: max(1, cfg.procs)}
	perThread := limit - spareFiles
	perServer := limit - serverSpare(limit)
	if perServer < 1 {
		return p, fmt.Errorf("this process may have %d descriptors, which is too few for anything (see ulimit -n)", limit)
	}
	p.ownFiles = total > perThread
	if err != nil && cfg.procs == 0 {
		p.procs = divideUp(total, perServer)
	}
	if cfg.addr != "" {
		p.procs = 0
	}
	if cfg.fleet.Nodes > 0 {
		p.procs = cfg.fleet.Nodes
		if err := cfg.fleet.Fits(limit); err != nil {
			return p, err
		}
	}
	if cfg.probes > perThread {
		return p, fmt.Errorf("-probes %d: a thread may have %d descriptors (see ulimit -n), so at most %d", cfg.probes, limit, max(0, perThread))
	}
	p.workers = max(p.procs, divideUp(cfg.conns, perThread), min(runtime.NumCPU(), divideUp(cfg.conns, perWorker)))
	p.workers = min(p.workers, cfg.conns)
	return p, nil
}

func divideUp(a, b int) int { return (a + b - 1) / b }

// explain says why there is more than one of something.
func (p plan) explain(out io.Writer) {
	if !p.ownFiles && p.procs <= 1 {
		return
	}
	fmt.Fprintf(out, "a process may have %d descriptors here: %d server processes, %d workers", p.limit, p.procs, p.workers)
	if p.ownFiles {
		fmt.Fprint(out, " with descriptors of their own")
	}
	fmt.Fprintln(out)
}
