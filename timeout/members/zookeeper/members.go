package zookeeper

import (
	"context"
	"fmt"
	"maps"
	"sync"
	"sync/atomic"
	"time"

	"github.com/heartwheel-go/heartwheel/timeout/engine"
)

// Members keeps the list of nodes in ZooKeeper. It is an engine.Watcher. Several goroutines may
// call its methods at the same time.
type Members struct {
	servers []string
	cfg     Config

	// running counts the goroutines of sessions and of calls, abandoned ones included.
	running sync.WaitGroup

	// mu guards the fields below. No one holds it during a call to ZooKeeper.
	mu     sync.Mutex
	nodes  map[nodeKey]*node // the nodes of this process
	closed bool

	life   context.Context // ends with Close
	end    context.CancelFunc
	joined chan struct{}        // closed when a node has joined
	last   atomic.Pointer[node] // the node that has joined or sent a heartbeat last, for Watch
}

var _ interface {
	engine.Members
	engine.Watcher
} = (*Members)(nil)

// Open returns the Members of an ensemble. Each server is "host" or "host:port". Open does not
// connect yet: the first Heartbeat of a node does. The error wraps engine.ErrArgument.
func Open(servers []string, cfg Config) (*Members, error) {
	servers, err := checkServers(servers)
	if err != nil {
		return nil, err
	}
	cfg = cfg.withDefaults()
	if err := cfg.check(); err != nil {
		return nil, err
	}
	m := &Members{servers: servers, cfg: cfg, nodes: make(map[nodeKey]*node), joined: make(chan struct{})}
	m.life, m.end = context.WithCancel(context.Background())
	return m, nil
}

// Heartbeat implements engine.Members. ZooKeeper may raise or lower ttl, see the package's comment. A
// node that changes its ttl loses its place.
func (m *Members) Heartbeat(ctx context.Context, who engine.Node, ttl time.Duration) (engine.View, error) {
	if ttl < time.Millisecond {
		return engine.View{}, fmt.Errorf("%w: ttl %v, must be at least 1ms", engine.ErrArgument, ttl)
	}
	ctx, cancel := context.WithTimeout(ctx, max(ttl/2, time.Second))
	defer cancel()
	n, err := m.node(nodeKey{who.Name, who.Run})
	if err != nil {
		return engine.View{}, err
	}
	n.hear(ttl)
	defer n.hear(ttl)
	view, err := do(ctx, n, func() (engine.View, error) { return n.heartbeat(who, ttl) })
	if err != nil {
		return engine.View{}, fmt.Errorf("timeout/members/zookeeper: heartbeat of node %s: %w", who.Name, err)
	}
	return view, nil
}

// Leave implements engine.Members. It removes only a node that has sent heartbeats through this Members.
func (m *Members) Leave(ctx context.Context, name string) error {
	m.mu.Lock()
	closed := m.closed
	var nodes []*node
	for key, n := range m.nodes {
		if key.name == name {
			nodes = append(nodes, n)
		}
	}
	m.mu.Unlock()
	if closed {
		return engine.ErrClosed
	}
	for _, n := range nodes {
		if _, err := do(ctx, n, func() (struct{}, error) { return struct{}{}, n.leave() }); err != nil {
			return fmt.Errorf("timeout/members/zookeeper: leave of node %s: %w", name, err)
		}
	}
	return nil
}

// Close ends all sessions, and with them the membership of the nodes that have not left. It takes
// a few seconds at most, and is idempotent.
func (m *Members) Close() error {
	m.mu.Lock()
	if m.closed {
		m.mu.Unlock()
		return nil
	}
	m.closed = true
	m.end()
	for _, n := range m.nodes {
		m.running.Go(n.close)
	}
	m.mu.Unlock()
	m.running.Wait()
	return nil
}

// forget forgets a node that has left.
func (m *Members) forget(n *node) {
	m.mu.Lock()
	defer m.mu.Unlock()
	maps.DeleteFunc(m.nodes, func(_ nodeKey, other *node) bool { return other == n })
}

// node returns that node. It makes a new one if there is none.
func (m *Members) node(key nodeKey) (*node, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.closed {
		return nil, engine.ErrClosed
	}
	n := m.nodes[key]
	if n == nil {
		n = newNode(m)
		m.nodes[key] = n
	}
	return n, nil
}

// start runs a function in a goroutine; Close waits for it. After Close, start runs nothing and
// reports false.
func (m *Members) start(run func()) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.closed {
		return false
	}
	m.running.Go(run)
	return true
}
