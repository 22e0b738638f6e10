package testserver

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/heartwheel-go/heartwheel/internal/process"
	"github.com/heartwheel-go/heartwheel/internal/testmain"
)

const (
	patience  = time.Minute // for the start of a server, on a busy machine
	endsAfter = 15 * time.Second
	logTail   = 4096 // bytes of the log in an error
)

// Server is a server of one process. Several goroutines may call its methods at the same time,
// as far as t allows.
type Server struct {
	Addr string // host:port, the same after a Restart
	URL  string // for clients of this kind
	Dir  string // with its data and its log

	port    int
	guard   io.Closer
	program program
	who     *account // account of the process, if it is another one
	pids    []int    // of all its processes so far

	mu      sync.Mutex
	process *family // nil if it doesn't run
}

// program is a kind of server.
type program struct {
	name    string // for people
	scheme  string // of URL
	path    string // of URL, after the address
	prepare func(s *Server) error
	command func(s *Server) (program string, args []string, err error)
	ready   func(ctx context.Context, s *Server) error
	stop    syscall.Signal  // asks it to end well
	quit    syscall.Signal  // ends it at once, and leaves nothing in the kernel
	sweep   func(s *Server) // removes its leftovers in the kernel after a kill
	clock   bool            // it has a clock of its own
}

// start starts a server for a test.
func start(t testing.TB, p program) *Server {
	t.Helper()
	s, err := begin(p)
	testmain.Need(t, err)
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("the log of %s at %s ends with\n%s", p.name, s.Addr, s.log())
		}
		s.end()
	})
	return s
}

// begin starts a server. If its port was taken just then, it tries again with another.
func begin(p program) (*Server, error) {
	var err error
	for range 3 {
		var s *Server
		if s, err = try(p); err == nil {
			return s, nil
		}
		if !errors.Is(err, errEnded) {
			break
		}
	}
	return nil, err
}

func try(p program) (*Server, error) {
	port, guard, err := reserve()
	if err != nil {
		return nil, err
	}
	s := &Server{
		Addr: address(port), URL: p.scheme + "://" + address(port) + p.path,
		port: port, guard: guard, program: p,
	}
	if s.Dir, err = tempDir(p.name); err == nil && p.prepare != nil {
		err = p.prepare(s)
	}
	if err == nil {
		err = s.run()
	}
	if err != nil {
		s.end()
		return nil, fmt.Errorf("testserver: %w", err)
	}
	return s, nil
}

// run starts the process and waits until it serves.
func (s *Server) run() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.process != nil {
		return fmt.Errorf("%s at %s runs already", s.program.name, s.Addr)
	}
	name, args, err := s.program.command(s)
	if err != nil {
		return err
	}
	log, err := os.OpenFile(s.logFile(), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		return err
	}
	defer log.Close()
	cmd := exec.Command(name, args...)
	cmd.Dir, cmd.Stdout, cmd.Stderr = s.Dir, log, log
	cmd.SysProcAttr = attributes(s.who)
	if s.program.clock {
		if cmd.Env, err = s.clockEnvironment(); err != nil {
			return err
		}
	}
	started, err := process.Start(cmd)
	if err != nil {
		return fmt.Errorf("starting %s: %w", s.program.name, err)
	}
	s.process, s.pids = &family{started}, append(s.pids, started.PID())
	if err := s.await(); err != nil {
		s.process.kill()
		s.process = nil
		return fmt.Errorf("%w, and its log ends with\n%s", err, s.log())
	}
	return nil
}

var errEnded = errors.New("ended before it served")

// await waits until the server serves.
func (s *Server) await() error {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	for {
		asked, cancel := context.WithTimeout(ctx, 5*time.Second)
		err := s.program.ready(asked, s)
		cancel()
		if err == nil {
			return nil
		}
		select {
		case <-s.process.Ended():
			return fmt.Errorf("%s %w: %w", s.program.name, errEnded, s.process.Err())
		case <-ctx.Done():
			return fmt.Errorf("%s does not serve after %v: %w", s.program.name, patience, err)
		case <-time.After(20 * time.Millisecond):
		}
	}
}

// Pause stops the server until Continue, with SIGSTOP. Connections stay, and the kernel goes on
// accepting some.
func (s *Server) Pause(t testing.TB) {
	t.Helper()
	s.with(t, (*family).pause)
}

// Continue ends a Pause.
func (s *Server) Continue(t testing.TB) {
	t.Helper()
	s.with(t, (*family).resume)
}

// with calls do with the process. It fails the test if the server does not run.
func (s *Server) with(t testing.TB, do func(*family) error) {
	t.Helper()
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.process == nil {
		t.Fatalf("testserver: %s at %s does not run", s.program.name, s.Addr)
	}
	if err := do(s.process); err != nil {
		t.Fatalf("testserver: %s at %s: %v", s.program.name, s.Addr, err)
	}
}

// Kill ends the server like a crash, with SIGKILL, and waits until it has ended. The data
// stays. If the server does not run, nothing happens.
func (s *Server) Kill(testing.TB) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.process != nil {
		s.process.kill()
		s.process = nil
	}
}

// Stop asks the server to end, like the shutdown of a machine, and waits until it has ended.
// The data stays. If the server does not run, nothing happens.
func (s *Server) Stop(t testing.TB) {
	t.Helper()
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.process == nil {
		return
	}
	if !s.process.finish(s.program.stop) {
		t.Errorf("testserver: %s at %s was told to end, ran on for %v, and was killed", s.program.name, s.Addr, endsAfter)
	}
	s.process = nil
}

// Restart starts the server again at the same address, with the same arguments and data, after
// a Stop if it runs.
func (s *Server) Restart(t testing.TB) {
	t.Helper()
	s.Stop(t)
	// Backends of a killed PostgreSQL end a moment later, and it does not start before.
	for began := time.Now(); ; time.Sleep(50 * time.Millisecond) {
		err := s.run()
		if err == nil {
			return
		}
		if !errors.Is(err, errEnded) || time.Since(began) > 10*time.Second {
			t.Fatalf("testserver: %v", err)
		}
	}
}

// PID returns the id of the process, or 0 if it doesn't run.
func (s *Server) PID() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.process == nil {
		return 0
	}
	return s.process.PID()
}

// end ends the server for good.
func (s *Server) end() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.process != nil {
		_ = s.process.finish(s.program.quit)
		s.process = nil
	}
	if s.program.sweep != nil {
		s.program.sweep(s)
	}
	s.guard.Close()
	if s.Dir != "" {
		_ = os.RemoveAll(s.Dir)
	}
}

func (s *Server) logFile() string { return filepath.Join(s.Dir, "log") }

// log returns the last lines of the log.
func (s *Server) log() string {
	said, err := os.ReadFile(s.logFile())
	if err != nil {
		return err.Error()
	}
	if len(said) > logTail {
		said = said[len(said)-logTail:]
	}
	return string(bytes.TrimSpace(said))
}

// find returns the path of a program. The error names its package.
func find(name, pkg string, elsewhere ...string) (string, error) {
	if path, err := exec.LookPath(name); err == nil {
		return path, nil
	}
	for _, pattern := range elsewhere {
		if paths, _ := filepath.Glob(pattern); len(paths) > 0 {
			return paths[len(paths)-1], nil
		}
	}
	return "", missing(name, pkg)
}

func missing(what, pkg string) error {
	return fmt.Errorf("%s %w: scripts/install-servers installs it (Debian's package %s)", what, testmain.ErrMissing, pkg)
}
