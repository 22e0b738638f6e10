package etcd

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"

	"github.com/heartwheel-go/heartwheel/timeout/engine"
)

// Members keeps the list of nodes in etcd. It is an engine.Watcher. Several goroutines may call
// its methods at the same time.
type Members struct {
	client *clientv3.Client
	own    bool // Open made the client
	cfg    Config
	closed atomic.Bool

	// turn guards the fields below; it has an element while it is taken.
	turn  chan struct{}
	nodes map[nodeKey]*node // the nodes of this process
}

var _ interface {
	engine.Members
	engine.Watcher
} = (*Members)(nil)

// New returns the Members of a client. The caller closes the client. The error wraps
// engine.ErrArgument.
func New(client *clientv3.Client, cfg Config) (*Members, error) {
	cfg = cfg.withDefaults()
	if err := cfg.check(); err != nil {
		return nil, err
	}
	return &Members{client: client, cfg: cfg, turn: make(chan struct{}, 1), nodes: make(map[nodeKey]*node)}, nil
}

// Open returns the Members of a cluster, with a client of its own. The servers need not run yet,
// because Open does not wait for them. With a Username, however, Open asks a server for a token,
// for at most five seconds. If an argument is wrong, the error wraps engine.ErrArgument.
func Open(endpoints []string, cfg Config) (*Members, error) {
	if err := checkEndpoints(endpoints); err != nil {
		return nil, err
	}
	cfg = cfg.withDefaults()
	if err := cfg.check(); err != nil {
		return nil, err
	}
	client, err := clientv3.New(clientv3.Config{
		Endpoints: endpoints, Username: cfg.Username, Password: cfg.Password, TLS: cfg.TLS,
		DialTimeout:       5 * time.Second,
		DialKeepAliveTime: 10 * time.Second, DialKeepAliveTimeout: 3 * time.Second, // leaves a hanging server for another one
		Logger: zap.NewNop(), // everything important is in the errors
	})
	if err != nil {
		return nil, fmt.Errorf("timeout/members/etcd: %w", err)
	}
	m, err := New(client, cfg)
	m.own = true
	return m, err
}

// Heartbeat implements engine.Members. ttl is rounded up to seconds, and etcd makes it at least two.
func (m *Members) Heartbeat(ctx context.Context, who engine.Node, ttl time.Duration) (engine.View, error) {
	if ttl <= 0 {
		return engine.View{}, fmt.Errorf("%w: ttl %v, must be above 0", engine.ErrArgument, ttl)
	}
	ctx, cancel := context.WithTimeout(ctx, heartbeatTimeout(ttl))
	defer cancel()
	if err := m.begin(ctx); err != nil {
		return engine.View{}, wrap("heartbeat", who.Name, err)
	}
	defer m.end()
	key := nodeKey{who.Name, who.Run}
	n := m.nodes[key]
	if n == nil {
		n = &node{}
		m.nodes[key] = n
	}
	seen, err := m.heartbeat(ctx, n, who, seconds(ttl))
	if err == nil && !seen.has(who.Name) {
		n.joined = false // somebody removed the node's key
		seen, err = m.heartbeat(ctx, n, who, seconds(ttl))
	}
	if err == nil && !seen.has(who.Name) {
		err = errRemoved
	}
	if err != nil {
		return engine.View{}, wrap("heartbeat", who.Name, err)
	}
	return engine.View{Nodes: seen.nodes, TTL: seen.ttl, Other: n.meet(ctx, m.client, who, seen.runs)}, nil
}

var errRemoved = errors.New("its key is removed as soon as it is written")

// heartbeat makes a node a member, and reads all nodes.
func (m *Members) heartbeat(ctx context.Context, n *node, who engine.Node, seconds int64) (snapshot, error) {
	if err := n.heartbeat(ctx, m, who, seconds); err != nil {
		return snapshot{}, err
	}
	return m.read(ctx)
}

// Leave implements engine.Members.
func (m *Members) Leave(ctx context.Context, name string) error {
	if err := m.begin(ctx); err != nil {
		return wrap("leave", name, err)
	}
	defer m.end()
	for key, n := range m.nodes {
		if key.name != name {
			continue
		}
		if err := n.leave(ctx, m); err != nil {
			return wrap("leave", name, err)
		}
		delete(m.nodes, key)
	}
	// An earlier process may have had that name.
	if _, err := m.client.Delete(ctx, m.cfg.Prefix+nodesKey+name); err != nil {
		return wrap("leave", name, err)
	}
	return nil
}

// Close closes the client if Open made it. A node that has not left stays a member until its lease
// ends. Close is idempotent.
func (m *Members) Close() error {
	if m.closed.Swap(true) || !m.own {
		return nil
	}
	if err := m.client.Close(); err != nil {
		return fmt.Errorf("timeout/members/etcd: closing the client: %w", err)
	}
	return nil
}

// begin waits for the turn of this call.
func (m *Members) begin(ctx context.Context) error {
	select {
	case m.turn <- struct{}{}:
	case <-ctx.Done():
		return ctx.Err()
	}
	if m.closed.Load() {
		m.end()
		return engine.ErrClosed
	}
	return nil
}

func (m *Members) end() { <-m.turn }

func wrap(what, name string, err error) error {
	return fmt.Errorf("timeout/members/etcd: %s of node %s: %w", what, name, err)
}

// heartbeatTimeout returns how long a heartbeat may take. It leaves the center time for another heartbeat.
func heartbeatTimeout(ttl time.Duration) time.Duration { return max(ttl/2, time.Second) }

// seconds rounds up.
func seconds(d time.Duration) int64 { return int64((d-1)/time.Second) + 1 }
