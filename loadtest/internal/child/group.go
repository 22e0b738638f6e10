package child

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"time"

	"github.com/heartwheel-go/heartwheel/loadtest/internal/proc"
)

// Group is the servers of a run. The zero value is empty. One goroutine may use it.
type Group struct {
	dir      string // of programs that were built
	children []*Process
}

const (
	emptyLimit = time.Minute
	emptyFiles = 8 // more than before the first connection
	emptyPoll  = 10 * time.Millisecond
)

// Dir returns a folder for a program of the group. Kill removes it.
func (g *Group) Dir() (dir string, err error) {
	if g.dir == "" {
		g.dir, err = os.MkdirTemp("", "loadtest")
	}
	return g.dir, err
}

// Add adds a running server.
func (g *Group) Add(p *Process) { g.children = append(g.children, p) }

// Remove forgets a server after its end.
func (g *Group) Remove(p *Process) {
	g.children = slices.DeleteFunc(g.children, func(c *Process) bool { return c == p })
}

// Listen waits until all servers listen.
func (g *Group) Listen(ctx context.Context) error {
	for _, p := range g.children {
		if err := p.Listens(ctx); err != nil {
			return err
		}
	}
	return nil
}

// Addrs returns the addresses of the servers.
func (g *Group) Addrs() (addrs []string) {
	for _, p := range g.children {
		addrs = append(addrs, p.Addr)
	}
	return addrs
}

// PIDs returns the numbers of the processes.
func (g *Group) PIDs() (pids []int) {
	for _, p := range g.children {
		pids = append(pids, p.PID())
	}
	return pids
}

// Used is what all servers of a group have used until their end.
type Used struct {
	PeakBytes int64 // resident, at the peak of each
	Processor time.Duration
}

// Stop ends the servers gracefully, after their peers have closed all connections.
func (g *Group) Stop() (used Used, err error) {
	var errs []error
	g.awaitEmpty()
	for _, pid := range g.PIDs() {
		used.PeakBytes += proc.PeakBytes(pid)
	}
	for _, p := range g.children {
		if err := p.Terminate(); err != nil {
			errs = append(errs, err)
		}
	}
	deadline := time.Now().Add(stopLimit)
	for _, p := range g.children {
		if err := p.ended(context.Background(), deadline); err != nil {
			errs = append(errs, err)
			continue
		}
		used.Processor += p.cmd.ProcessState.UserTime() + p.cmd.ProcessState.SystemTime()
	}
	if len(errs) > 1 {
		return used, fmt.Errorf("%d of %d, the first with: %w", len(errs), len(g.children), errs[0])
	}
	return used, errors.Join(errs...)
}

// awaitEmpty waits until the servers have noticed the ends of their connections, for a minute at most.
func (g *Group) awaitEmpty() {
	deadline := time.Now().Add(emptyLimit)
	for _, p := range g.children {
		for proc.OpenFiles(p.PID()) > p.idleFiles+emptyFiles && time.Now().Before(deadline) {
			time.Sleep(emptyPoll)
		}
	}
}

// Kill ends the servers in any case, and removes the group's programs.
func (g *Group) Kill() {
	for _, p := range g.children {
		p.Kill()
	}
	if g.dir != "" {
		_ = os.RemoveAll(g.dir)
	}
}
