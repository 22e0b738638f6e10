// Package redisserver starts a Redis of a program's own: on a free port of the loopback interface,
// with nothing on disk. It needs no client of Redis, so any module can have it.
package redisserver

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"time"

	"github.com/heartwheel-go/heartwheel/internal/port"
	"github.com/heartwheel-go/heartwheel/internal/process"
)

const (
	program = "redis-server"

	// ready is in its log when it answers.
	ready = "Ready to accept connections"

	// starting is how long the start may take.
	starting = 20 * time.Second

	// tries is how often: a port is free until somebody else has it.
	tries = 3
)

// ErrMissing is why there is no server on a machine.
var ErrMissing = errors.New(program + " is not on this machine: scripts/install-packages redis-server installs it (Debian's package redis-server)")

var errEnded = errors.New(program + " has ended")

// Server runs until Stop. On Linux it ends with this process, too, in any case.
type Server struct {
	Addr string // host:port
	URL  string

	process *process.Process
	log     log
}

// Start starts a server, and waits until it answers. Without the program on this machine the error is
// ErrMissing.
func Start(ctx context.Context) (*Server, error) {
	path, err := exec.LookPath(program)
	if err != nil {
		return nil, ErrMissing
	}
	var s *Server
	for range tries {
		if s, err = start(ctx, path); !errors.Is(err, errEnded) {
			break
		}
	}
	return s, err
}

func start(ctx context.Context, path string) (*Server, error) {
	free, err := port.Free()
	if err != nil {
		return nil, fmt.Errorf("starting %s: %w", program, err)
	}
	dir, err := os.MkdirTemp("", "redisserver")
	if err != nil {
		return nil, fmt.Errorf("starting %s: %w", program, err)
	}
	s := &Server{Addr: net.JoinHostPort("127.0.0.1", free), log: log{ready: make(chan struct{})}}
	s.URL = "redis://" + s.Addr
	cmd := exec.Command(path, "--port", free, "--bind", "127.0.0.1", "--dir", dir,
		"--save", "", "--appendonly", "no", "--daemonize", "no")
	lines := &process.Lines{Each: s.log.line}
	cmd.Stdout, cmd.Stderr = lines, lines
	if s.process, err = process.Start(cmd); err != nil {
		return nil, errors.Join(fmt.Errorf("starting %s: %w", program, err), os.RemoveAll(dir))
	}
	err = s.await(ctx)
	// It keeps nothing, so it does not need its folder any more. The kill of this process would leave
	// the folder behind.
	if err = errors.Join(err, os.RemoveAll(dir)); err != nil {
		s.Stop()
		return nil, err
	}
	return s, nil
}

func how(err error) string {
	if err == nil {
		return "exit status 0"
	}
	return err.Error()
}

// await waits until the server answers.
func (s *Server) await(ctx context.Context) error {
	limit := time.NewTimer(starting)
	defer limit.Stop()
	select {
	case <-s.log.ready:
		return nil
	case <-s.Ended():
		return s.Err()
	case <-limit.C:
		return fmt.Errorf("%s is not ready after %v: %s", program, starting, s.log.last())
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// PID is the number of the process.
func (s *Server) PID() int { return s.process.PID() }

// Ended is closed when the server has ended.
func (s *Server) Ended() <-chan struct{} { return s.process.Ended() }

// Err returns how it has ended, with what it said last, or nil while it runs.
func (s *Server) Err() error {
	select {
	case <-s.Ended():
		return fmt.Errorf("%w: %s: %s", errEnded, how(s.process.Err()), s.log.last())
	default:
		return nil
	}
}

// Stop ends the server, and waits for its end. A second call does nothing. The server has nothing to
// save.
func (s *Server) Stop() { s.process.Kill() }
