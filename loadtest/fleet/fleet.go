package fleet

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	"github.com/heartwheel-go/heartwheel/internal/redisserver"
	"github.com/heartwheel-go/heartwheel/loadtest/internal/child"
)

// Fleet is gateways with one Redis. It keeps all nodes that were ever started: a restarted node is
// another node of the same name, so a client always finds the node of its connection. Clients may be
// used at the same time as one of the other methods.
type Fleet struct {
	cfg    Config
	stays  []bool // by session of the nodes to be killed: its client does not come back
	prefix string // of all keys in Redis

	binary  string
	args    []string
	env     []string
	servers child.Group
	redis   *redisserver.Server // nil for somebody else's

	mu      sync.Mutex
	nodes   []*node
	watches sync.WaitGroup // for the ends of nodes

	away atomic.Int64 // clients without a node, on their way to another

	meter Meter
	usage usage
}

// Meter measures all servers together.
type Meter interface {
	Join(pid int)  // a server begins
	Leave(pid int) // a server has ended
}

// New returns a fleet before its launch.
func New(cfg Config) *Fleet {
	f := &Fleet{cfg: cfg, prefix: fmt.Sprintf("loadtest-%08x", rand.Uint32()), stays: make([]bool, cfg.killed())}
	for _, i := range rand.Perm(len(f.stays))[cfg.returning():] {
		f.stays[i] = true
	}
	return f
}

var errNobodyServes = errors.New("no node of the fleet serves")

// choose returns the node for a connection: at first by the session's number, later the serving node
// with the fewest connections, as a load balancer does. The connection must leave it.
func (f *Fleet) choose(session int, first bool) (*node, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	var best *node
	if first {
		best = f.nodes[session*f.cfg.Nodes/f.cfg.Conns]
	} else {
		for _, n := range f.nodes {
			if n.state.Load() == up && (best == nil || n.conns < best.conns) {
				best = n
			}
		}
	}
	if best == nil {
		return nil, errNobodyServes
	}
	best.conns++
	return best, nil
}

// leave is for a connection after its end, also before its first answer.
func (f *Fleet) leave(n *node) {
	f.mu.Lock()
	defer f.mu.Unlock()
	n.conns--
}

// end notes the end of a node, in one of the last states. It reports false if the node has ended before.
func (f *Fleet) end(n *node, how int32) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	if state := n.state.Load(); state != starting && state != up {
		return false
	}
	n.ended = time.Now()
	n.state.Store(how)
	return true
}

// fate returns the state of a node and the time of its end.
func (f *Fleet) fate(n *node) (state int32, ended time.Time) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return n.state.Load(), n.ended
}

// all returns all nodes, also ended ones.
func (f *Fleet) all() []*node {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.nodes[:len(f.nodes):len(f.nodes)]
}

// serving returns the nodes in state up.
func (f *Fleet) serving() (nodes []*node) {
	for _, n := range f.all() {
		if n.state.Load() == up {
			nodes = append(nodes, n)
		}
	}
	return nodes
}
