package testserver

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"testing"
	"time"
)

// RedisWithClock is Redis with a clock of its own: see Server.SetClock.
func RedisWithClock(t testing.TB, args ...string) *Server {
	t.Helper()
	return start(t, withClock(redis(args...)))
}

// PostgresWithClock is Postgres with a clock of its own: see Server.SetClock.
func PostgresWithClock(t testing.TB, settings ...string) *Server {
	t.Helper()
	return start(t, withClock(postgres(settings...)))
}

// SetClock sets the clock of a server ahead of this machine's, or behind it if ahead is
// negative. It may be called while the server runs, for a step of the clock, and while it does
// not. The server's monotonic clock stays right.
func (s *Server) SetClock(t testing.TB, ahead time.Duration) {
	t.Helper()
	if err := s.writeClock(ahead); err != nil {
		t.Fatalf("testserver: the clock of %s at %s: %v", s.program.name, s.Addr, err)
	}
}

// writeClock writes the file of the library libfaketime, atomically: the server reads it
// whenever it asks for the time.
func (s *Server) writeClock(ahead time.Duration) error {
	if !s.program.clock {
		return fmt.Errorf("it has that of this machine")
	}
	path := s.clockFile()
	text := fmt.Sprintf("%+.6f\n", ahead.Seconds())
	if err := os.WriteFile(path+".new", []byte(text), 0o644); err != nil { //nolint:gosec // PostgreSQL runs as somebody else
		return err
	}
	return os.Rename(path+".new", path)
}

func (s *Server) clockFile() string { return filepath.Join(s.Dir, "clock") }

// withClock makes a program run with an adjustable clock.
func withClock(p program) program {
	prepare, sweep := p.prepare, p.sweep
	p.clock = true
	p.prepare = func(s *Server) error {
		if err := s.writeClock(0); err != nil || prepare == nil {
			return err
		}
		return prepare(s)
	}
	p.sweep = func(s *Server) {
		for _, pid := range s.pids { // a killed server leaves it
			_ = os.Remove("/dev/shm/faketime_shm_" + strconv.Itoa(pid))
			_ = os.Remove("/dev/shm/sem.faketime_sem_" + strconv.Itoa(pid))
		}
		if sweep != nil {
			sweep(s)
		}
	}
	return p
}

// clockEnvironment returns the environment of a process with an adjustable clock.
func (s *Server) clockEnvironment() ([]string, error) {
	const library = "/usr/lib/*/faketime/libfaketimeMT.so.1"
	found, _ := filepath.Glob(library)
	if len(found) == 0 {
		return nil, missing(library, "libfaketime")
	}
	return append(os.Environ(),
		// The allocator of Debian's Redis asks for the time before the library can answer, and
		// both then wait for each other. So the C library's allocator comes first.
		"LD_PRELOAD="+found[0]+" libc.so.6",
		"FAKETIME_TIMESTAMP_FILE="+s.clockFile(), "FAKETIME_NO_CACHE=1", "FAKETIME_DONT_FAKE_MONOTONIC=1",
	), nil
}
