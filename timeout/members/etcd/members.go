package etcd

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync/atomic"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"

	"github.com/heartwheel-go/heartwheel/timeout"
)

// Members are the nodes that etcd knows. It is a timeout.Watcher. All methods may be called by
// several goroutines at the same time.
type Members struct {
	client *clientv3.Client
	own    bool // the client is Open's
	cfg    Config
	closed atomic.Bool

	// turn has an element while somebody uses what follows.
	turn  chan struct{}
	nodes map[string]*node // that beat here, by name
	last  snapshot         // what was read last, and is a view
}

var _ interface {
	timeout.Members
	timeout.Watcher
} = (*Members)(nil)

// New returns the members that a client knows, which stays the caller's to close. The error
// wraps timeout.ErrArgument.
func New(client *clientv3.Client, cfg Config) (*Members, error) {
	cfg = cfg.withDefaults()
	if err := cfg.check(); err != nil {
		return nil, err
	}
	return &Members{client: client, cfg: cfg, turn: make(chan struct{}, 1), nodes: make(map[string]*node)}, nil
}

// Open returns the members that the servers of a cluster know, with a client of its own. It
// does not wait for a server, so none needs to be there yet; but with a user it is asked for
// a token, for at most five seconds. An error that wraps timeout.ErrArgument says that an
// argument is wrong.
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
		DialKeepAliveTime: 10 * time.Second, DialKeepAliveTimeout: 3 * time.Second, // for a server that hangs: another one is asked then
		Logger: zap.NewNop(), // what matters is in the errors
	})
	if err != nil {
		return nil, fmt.Errorf("timeout/members/etcd: %w", err)
	}
	m, err := New(client, cfg)
	m.own = true
	return m, err
}

// Beat is timeout.Members'. etcd counts ttl in seconds, rounded up, and makes it two at least.
func (m *Members) Beat(ctx context.Context, who timeout.Node, ttl time.Duration) (timeout.View, error) {
	if ttl <= 0 {
		return timeout.View{}, fmt.Errorf("%w: ttl %v, must be above 0", timeout.ErrArgument, ttl)
	}
	ctx, cancel := context.WithTimeout(ctx, patience(ttl))
	defer cancel()
	if err := m.begin(ctx); err != nil {
		return timeout.View{}, wrap("beat", who.Name, err)
	}
	defer m.end()
	n := m.nodes[who.Name]
	if n == nil {
		n = &node{}
		m.nodes[who.Name] = n
	}
	seen, err := m.beat(ctx, n, who, seconds(ttl))
	if err == nil && !seen.has(who.Name) {
		n.joined = false // its key was removed by somebody, or what the terms count from
		seen, err = m.beat(ctx, n, who, seconds(ttl))
	}
	if err == nil && !seen.has(who.Name) {
		err = errRemoved
	}
	if err != nil {
		return timeout.View{}, wrap("beat", who.Name, err)
	}
	return m.adopt(seen), nil
}

var errRemoved = errors.New("its key is removed as soon as it is written")

// beat has a node be a member, and reads all.
func (m *Members) beat(ctx context.Context, n *node, who timeout.Node, seconds int64) (snapshot, error) {
	if err := n.beat(ctx, m, who, seconds); err != nil {
		return snapshot{}, err
	}
	return m.read(ctx)
}

// Leave is timeout.Members'.
func (m *Members) Leave(ctx context.Context, name string) error {
	if err := m.begin(ctx); err != nil {
		return wrap("leave", name, err)
	}
	defer m.end()
	if n := m.nodes[name]; n != nil {
		if err := n.leave(ctx, m); err != nil {
			return wrap("leave", name, err)
		}
		delete(m.nodes, name)
	}
	// An earlier process may have had that name.
	if _, err := m.client.Delete(ctx, m.cfg.Prefix+nodesKey+name); err != nil {
		return wrap("leave", name, err)
	}
	return nil
}

// Close ends the client if Open has made it. Nodes that have not left are members until their
// leases end. It is idempotent.
func (m *Members) Close() error {
	if m.closed.Swap(true) || !m.own {
		return nil
	}
	if err := m.client.Close(); err != nil {
		return fmt.Errorf("timeout/members/etcd: closing the client: %w", err)
	}
	return nil
}

// begin waits for this call's turn.
func (m *Members) begin(ctx context.Context) error {
	select {
	case m.turn <- struct{}{}:
	case <-ctx.Done():
		return ctx.Err()
	}
	if m.closed.Load() {
		m.end()
		return timeout.ErrClosed
	}
	return nil
}

func (m *Members) end() { <-m.turn }

// adopt returns the view of what was read. While nothing changes it stays the same.
func (m *Members) adopt(seen snapshot) timeout.View {
	if !slices.Equal(seen.keys, m.last.keys) {
		m.last = seen
	}
	return timeout.View{Term: m.last.term, Nodes: slices.Clone(m.last.nodes)}
}

func wrap(what, name string, err error) error {
	return fmt.Errorf("timeout/members/etcd: %s of node %s: %w", what, name, err)
}

// patience is how long a beat may take, so that a centre that notices has time for another.
func patience(ttl time.Duration) time.Duration { return max(ttl/2, time.Second) }

// seconds rounds up.
func seconds(d time.Duration) int64 { return int64((d-1)/time.Second) + 1 }
