package testserver

import (
	"errors"
	"os"
	"sync"
	"testing"

	"go.uber.org/goleak"

	"github.com/heartwheel-go/heartwheel/internal/testmain"
)

// Main is for TestMain. It runs the tests, with testmain and the given options, and stops the shared servers.
func Main(m *testing.M, options ...goleak.Option) {
	atEnd.mu.Lock()
	atEnd.main = true
	atEnd.mu.Unlock()
	testmain.Run(run(m.Run), options...)
}

type run func() int

func (r run) Run() int {
	code := r()
	atEnd.all()
	return code
}

// atEnd holds the work of Main after the tests.
var atEnd cleanups

type cleanups struct {
	mu   sync.Mutex
	main bool
	todo []func()
}

// add registers a function to run after the tests. It fails if TestMain doesn't call Main.
func (c *cleanups) add(do func()) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.main {
		return errors.New("testserver: what tests share needs func TestMain(m *testing.M) { testserver.Main(m) }")
	}
	c.todo = append(c.todo, do)
	return nil
}

func (c *cleanups) all() {
	c.mu.Lock()
	defer c.mu.Unlock()
	for i := len(c.todo) - 1; i >= 0; i-- {
		c.todo[i]()
	}
	c.todo = nil
}

// shared is a server for all tests of a package.
type shared struct {
	once   sync.Once
	server *Server
	err    error
}

// get returns the server. The first call starts it.
func (s *shared) get(t testing.TB, p program) *Server {
	t.Helper()
	s.once.Do(func() {
		if s.err = atEnd.add(func() { s.end() }); s.err == nil {
			s.server, s.err = begin(p)
		}
	})
	testmain.Need(t, s.err)
	return s.server
}

func (s *shared) end() {
	if s.server != nil {
		s.server.end()
	}
}

// tempDir returns a new directory that other users may enter: PostgreSQL's files are another
// user's. The directories of package testing are closed to others.
func tempDir(name string) (string, error) {
	dir, err := os.MkdirTemp("", "testserver-"+name+"-")
	if err != nil {
		return "", err
	}
	return dir, os.Chmod(dir, 0o711) //nolint:gosec // see above
}
