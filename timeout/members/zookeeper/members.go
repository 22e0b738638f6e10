package zookeeper

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/heartwheel-go/heartwheel/timeout"
)

// Members are the nodes that ZooKeeper knows. It is a timeout.Watcher. All methods may be
// called by several goroutines at the same time.
type Members struct {
	servers []string
	cfg     Config

	// running are the goroutines of calls that nobody waits for any more, and of sessions.
	running sync.WaitGroup

	// mu guards what follows. It is not held while ZooKeeper is asked.
	mu      sync.Mutex
	nodes   map[string]*node // that beat here, by name
	session *session         // that Watch uses: the last that a node has joined with
	another chan struct{}    // closed when session is another one
	closed  bool
	closing chan struct{}
}

var _ interface {
	timeout.Members
	timeout.Watcher
} = (*Members)(nil)

// Open returns the members that the servers of an ensemble know, each "host" or "host:port".
// It does not connect yet: a node's first Beat does. The error wraps timeout.ErrArgument.
func Open(servers []string, cfg Config) (*Members, error) {
	servers, err := checkServers(servers)
	if err != nil {
		return nil, err
	}
	cfg = cfg.withDefaults()
	if err := cfg.check(); err != nil {
		return nil, err
	}
	return &Members{
		servers: servers, cfg: cfg,
		nodes: make(map[string]*node), another: make(chan struct{}), closing: make(chan struct{}),
	}, nil
}

// Beat is timeout.Members'. ZooKeeper may make another ttl of it, see above. A node that beats
// with another ttl than before loses its place.
func (m *Members) Beat(ctx context.Context, who timeout.Node, ttl time.Duration) (timeout.View, error) {
	if ttl < time.Millisecond {
		return timeout.View{}, fmt.Errorf("%w: ttl %v, must be at least 1ms", timeout.ErrArgument, ttl)
	}
	ctx, cancel := context.WithTimeout(ctx, max(ttl/2, time.Second))
	defer cancel()
	n, err := m.node(who.Name)
	if err != nil {
		return timeout.View{}, err
	}
	n.hear(ttl)
	defer n.hear(ttl)
	view, err := do(ctx, n, func() (timeout.View, error) { return n.beat(who, ttl) })
	if err != nil {
		return timeout.View{}, fmt.Errorf("timeout/members/zookeeper: beat of node %s: %w", who.Name, err)
	}
	return view, nil
}

// Leave is timeout.Members'. Of a node that never beat here it knows nothing.
func (m *Members) Leave(ctx context.Context, name string) error {
	m.mu.Lock()
	n, closed := m.nodes[name], m.closed
	m.mu.Unlock()
	switch {
	case closed:
		return timeout.ErrClosed
	case n == nil:
		return nil
	}
	_, err := do(ctx, n, func() (struct{}, error) { return struct{}{}, n.leave() })
	if err != nil {
		return fmt.Errorf("timeout/members/zookeeper: leave of node %s: %w", name, err)
	}
	return nil
}

// Close ends all sessions, and so the membership of nodes that have not left, in some seconds
// at most. It is idempotent.
func (m *Members) Close() error {
	m.mu.Lock()
	if m.closed {
		m.mu.Unlock()
		return nil
	}
	m.closed = true
	close(m.closing)
	for _, n := range m.nodes {
		m.running.Go(n.close)
	}
	m.mu.Unlock()
	m.running.Wait()
	return nil
}

// node returns the node of that name.
func (m *Members) node(name string) (*node, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.closed {
		return nil, timeout.ErrClosed
	}
	n := m.nodes[name]
	if n == nil {
		n = newNode(m)
		m.nodes[name] = n
	}
	return n, nil
}

// start runs something that Close waits for. It reports false after Close.
func (m *Members) start(run func()) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.closed {
		return false
	}
	m.running.Go(run)
	return true
}

// use has Watch use a session.
func (m *Members) use(s *session) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if s != m.session {
		m.replace(s)
	}
}

// unuse has Watch wait for another session than one that ends.
func (m *Members) unuse(s *session) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if s == m.session {
		m.replace(nil)
	}
}

// replace tells Watch of a session. m.mu must be held.
func (m *Members) replace(s *session) {
	m.session = s
	close(m.another)
	m.another = make(chan struct{})
}
