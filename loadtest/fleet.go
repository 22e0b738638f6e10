package main

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"net/netip"
	"sync"
	"sync/atomic"
	"time"

	"github.com/heartwheel-go/heartwheel/internal/redisserver"
)

// fleet is gateways that share a Redis, and what their clients know of them. Its nodes are those
// that were ever started, so a connection is always to the one that it was made to, also when
// another has its name by now.
type fleet struct {
	cfg    config
	stays  []bool // of the sessions of nodes that are killed, those that do not come back
	prefix string // of all keys in Redis

	binary  string
	args    []string
	env     []string
	servers *servers
	redis   *redisserver.Server // nil if it is somebody else's

	mu      sync.Mutex
	nodes   []*node
	watches sync.WaitGroup // until nodes end

	away atomic.Int64 // clients that have lost their node and are to find another

	meter *meter
	usage usage
}

// node is a gateway, as long as it runs.
type node struct {
	name      string
	number    int // in fleet.nodes
	addr      netip.AddrPort
	child     *child
	listening string // what its log says of that
	log       eventLog
	state     atomic.Int32
	ended     time.Time // when it was told to end, or killed, or has ended by itself; fleet.mu
	conns     int       // that clients have or are opening; fleet.mu
}

// The states of a node.
const (
	starting int32 = iota
	up
	draining
	killed
	died // by itself
)

func newFleet(cfg config) *fleet {
	f := &fleet{cfg: cfg, prefix: fmt.Sprintf("loadtest-%08x", rand.Uint32()), stays: make([]bool, cfg.killed())}
	for _, i := range rand.Perm(len(f.stays))[cfg.returning():] {
		f.stays[i] = true
	}
	return f
}

var errNobodyServes = errors.New("no node of the fleet serves")

// choose returns the node for a connection: that of its number at first, and later the one that
// serves fewest, as a load balancer would. It must be left.
func (f *fleet) choose(session int, first bool) (*node, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	var best *node
	if first {
		best = f.nodes[session*f.cfg.nodes/f.cfg.conns]
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

// end says that a node ends, in one of the last states. It does nothing, and reports that, where
// the node has ended already.
func (f *fleet) end(n *node, how int32) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	if state := n.state.Load(); state != starting && state != up {
		return false
	}
	n.ended = time.Now()
	n.state.Store(how)
	return true
}

// fate returns a node's state, and when it was to end.
func (f *fleet) fate(n *node) (state int32, ended time.Time) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return n.state.Load(), n.ended
}

// leave is for a connection that is closed, or never came to be.
func (f *fleet) leave(n *node) {
	f.mu.Lock()
	defer f.mu.Unlock()
	n.conns--
}

// all returns the nodes that were ever started.
func (f *fleet) all() []*node {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.nodes[:len(f.nodes):len(f.nodes)]
}

// serving returns those that are neither killed nor told to end.
func (f *fleet) serving() (nodes []*node) {
	for _, n := range f.all() {
		if n.state.Load() == up {
			nodes = append(nodes, n)
		}
	}
	return nodes
}
