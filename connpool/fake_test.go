package connpool

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

const ms = time.Millisecond

// bg is a context without an end.
var bg = context.Background()

var errBroken = errors.New("broken")

// fake is a connection. Closing it twice fails the test.
type fake struct {
	server *fakeServer
	id     int
	broken bool // the answer of check; guarded by server.mu
	closed Reason
	users  int
}

// fakeServer dials fakes, and keeps all of them.
type fakeServer struct {
	t testing.TB

	mu       sync.Mutex
	latency  time.Duration
	down     error
	deaf     bool // dials don't end with their context
	conns    []*fake
	open     int
	mostOpen int
	dialing  int
	mostDial int
	tries    int
	checks   int
	triedAt  []time.Time
}

func (s *fakeServer) dial(ctx context.Context) (*fake, error) {
	s.mu.Lock()
	s.dialing++
	s.mostDial = max(s.mostDial, s.dialing)
	s.tries++
	s.triedAt = append(s.triedAt, time.Now())
	latency, deaf := s.latency, s.deaf
	s.mu.Unlock()
	if latency > 0 {
		done := ctx.Done()
		if deaf {
			done = nil
		}
		select {
		case <-time.After(latency):
		case <-done:
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.dialing--
	if err := ctx.Err(); err != nil && !deaf {
		return nil, err
	}
	if s.down != nil {
		return nil, s.down
	}
	c := &fake{server: s, id: len(s.conns)}
	s.conns = append(s.conns, c)
	s.open++
	s.mostOpen = max(s.mostOpen, s.open)
	return c, nil
}

func (s *fakeServer) close(c *fake, why Reason) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if c.closed != 0 {
		s.t.Errorf("connection %d closed for %v, and again for %v", c.id, c.closed, why)
	}
	if why == 0 {
		s.t.Errorf("connection %d closed for no reason", c.id)
	}
	c.closed = why
	s.open--
}

func (s *fakeServer) check(_ context.Context, c *fake) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.checks++
	if c.closed != 0 {
		s.t.Errorf("connection %d checked after it was closed for %v", c.id, c.closed)
	}
	if c.broken {
		return errBroken
	}
	return nil
}

// set changes the server.
func (s *fakeServer) set(f func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	f()
}

func (s *fakeServer) openNow() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.open
}

// seen returns one of the server's figures.
func (s *fakeServer) seen(n *int) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return *n
}

// conn returns the connection of the given dial, from 0.
func (s *fakeServer) conn(id int) *fake {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.conns[id]
}

func (c *fake) why() Reason {
	c.server.mu.Lock()
	defer c.server.mu.Unlock()
	return c.closed
}

func (c *fake) breakNow() {
	c.server.mu.Lock()
	defer c.server.mu.Unlock()
	c.broken = true
}

// use marks the connection as in use, until the returned function is called.
func (c *fake) use() (leave func()) {
	c.server.mu.Lock()
	defer c.server.mu.Unlock()
	if c.users++; c.users > 1 {
		c.server.t.Errorf("connection %d has %d users", c.id, c.users)
	}
	if c.closed != 0 {
		c.server.t.Errorf("connection %d was handed out after it was closed for %v", c.id, c.closed)
	}
	return func() {
		c.server.mu.Lock()
		defer c.server.mu.Unlock()
		if c.closed != 0 {
			c.server.t.Errorf("connection %d was closed for %v while it was in use", c.id, c.closed)
		}
		c.users--
	}
}

// newTestPool makes a pool of fakes. In the end, each of them must be closed.
func newTestPool(t testing.TB, cfg Config[*fake]) (*Pool[*fake], *fakeServer) {
	s := &fakeServer{t: t}
	return newPoolOf(t, s, cfg), s
}

func newPoolOf(t testing.TB, s *fakeServer, cfg Config[*fake]) *Pool[*fake] {
	if cfg.Dial == nil {
		cfg.Dial = s.dial
	}
	cfg.Close = s.close
	p, err := New(cfg)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, p.Close()) })
	return p
}

func get(t testing.TB, p *Pool[*fake]) Lease[*fake] {
	t.Helper()
	l, err := p.Get(bg)
	require.NoError(t, err)
	return l
}

// getMany gets several connections at the same time, and puts them back: the first is the
// idlest.
func getMany(t testing.TB, p *Pool[*fake], n int) {
	t.Helper()
	var all []Lease[*fake]
	for range n {
		all = append(all, get(t, p))
	}
	for _, l := range all {
		require.NoError(t, l.Put())
	}
}
