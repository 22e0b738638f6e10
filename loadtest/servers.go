package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// servers are processes of our own: echo-heartbeat servers, or a baseline.
type servers struct {
	dir      string // of the binary, if it was built
	children []*child
}

const (
	module     = "github.com/heartwheel-go/heartwheel"
	startLimit = 20 * time.Second
	stopLimit  = 30 * time.Second

	emptyLimit = time.Minute
	emptyFiles = 8 // more than before the first connection
	emptyPoll  = 10 * time.Millisecond
)

// startServers builds the server, starts as many processes as the plan says, and
// waits until they listen. It must be called on a locked thread that stays until
// they are stopped.
func startServers(ctx context.Context, cfg config, p plan) (_ *servers, err error) {
	s := new(servers)
	defer func() {
		if err != nil {
			s.kill()
		}
	}()
	binary := cfg.server
	if binary == "" {
		if binary, err = s.build(ctx, cfg.serverPackage()); err != nil {
			return nil, err
		}
	}
	if cfg.quantum > 0 {
		defer workInBatches()() // which the servers inherit
	}
	for range p.procs {
		c, err := startChild(binary, cfg.serverArgs(p), p.serverEnv())
		if err != nil {
			return nil, err
		}
		s.children = append(s.children, c)
	}
	for _, c := range s.children {
		if err := c.listens(ctx); err != nil {
			return nil, err
		}
	}
	return s, nil
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
	return append(args,
		"-tick", cfg.tick.String(),
		"-max-conns", strconv.Itoa(divideUp(cfg.conns, p.procs)+divideUp(cfg.probes, p.procs)),
		"-log-format", "json")
}

// serverEnv shares the processors out: more event loops than processors would
// only take turns, which was seen to cost a quarter more processor time.
func (p plan) serverEnv() []string {
	procs := max(1, runtime.NumCPU()/p.procs)
	if p.procs == 1 || os.Getenv("GOMAXPROCS") != "" {
		return nil // this program's
	}
	return append(os.Environ(), "GOMAXPROCS="+strconv.Itoa(procs))
}

func (s *servers) build(ctx context.Context, pkg string) (binary string, err error) {
	if s.dir, err = os.MkdirTemp("", "loadtest"); err != nil {
		return "", fmt.Errorf("building the server: %w", err)
	}
	binary = filepath.Join(s.dir, "server")
	out, err := exec.CommandContext(ctx, "go", "build", "-o", binary, pkg).CombinedOutput()
	if err != nil {
		return "", fmt.Errorf("building the server: %w: %s (use -server or -addr outside of Heartwheel's own folder)", err, strings.TrimSpace(string(out)))
	}
	return binary, nil
}

func (s *servers) addrs() (addrs []string) {
	for _, c := range s.children {
		addrs = append(addrs, c.addr)
	}
	return addrs
}

func (s *servers) pids() (pids []int) {
	for _, c := range s.children {
		pids = append(pids, c.cmd.Process.Pid)
	}
	return pids
}

// stop ends the servers gracefully, when their peers have closed all connections,
// and reports what they have used until then.
func (s *servers) stop(r *serverReport) error {
	var errs []error
	s.awaitEmpty()
	for _, pid := range s.pids() {
		r.RSSBytes += peakBytes(pid)
	}
	for _, c := range s.children {
		if err := c.cmd.Process.Signal(syscall.SIGTERM); err != nil && !errors.Is(err, os.ErrProcessDone) {
			errs = append(errs, err)
		}
	}
	deadline := time.Now().Add(stopLimit)
	for _, c := range s.children {
		if err := c.ended(context.Background(), deadline); err != nil {
			errs = append(errs, err)
			continue
		}
		state := c.cmd.ProcessState
		r.CPUSeconds += (state.UserTime() + state.SystemTime()).Seconds()
	}
	if len(errs) > 1 {
		return fmt.Errorf("%d of %d, the first with: %w", len(errs), len(s.children), errs[0])
	}
	return errors.Join(errs...)
}

// awaitEmpty waits until the servers have taken note that their connections are
// closed, but not for ever.
func (s *servers) awaitEmpty() {
	deadline := time.Now().Add(emptyLimit)
	for _, c := range s.children {
		for openFiles(c.cmd.Process.Pid) > c.idleFiles+emptyFiles && time.Now().Before(deadline) {
			time.Sleep(emptyPoll)
		}
	}
}

// kill ends the servers in any case, and removes what was built.
func (s *servers) kill() {
	for _, c := range s.children {
		c.kill()
	}
	if s.dir != "" {
		_ = os.RemoveAll(s.dir)
	}
}
