package fleet

import (
	"context"
	"fmt"
	"net/netip"
	"sync/atomic"
	"time"

	"github.com/heartwheel-go/heartwheel/loadtest/internal/child"
)

// node is a gateway, from its start to its end.
type node struct {
	name      string
	number    int // in Fleet.nodes
	addr      netip.AddrPort
	child     *child.Process
	listening string // its address, as its log has it
	log       eventLog
	state     atomic.Int32
	ended     time.Time // of SIGTERM, SIGKILL, or an end by itself; Fleet.mu
	conns     int       // of clients, also those being opened; Fleet.mu
}

// The states of a node.
const (
	starting int32 = iota
	up
	draining
	killed
	died // by itself
)

// redisFiles is how many connections to Redis a node may have.
const redisFiles = 64

// startNode starts a gateway. It does not listen yet.
func (f *Fleet) startNode(name string) (*node, error) {
	n := &node{name: name}
	n.child = child.New(f.binary, append([]string{"-name", name}, f.args...), f.env)
	if err := n.child.Start(n.readLog, n.log.line); err != nil {
		return nil, err
	}
	f.servers.Add(n.child)
	f.watches.Go(func() {
		<-n.child.Done()
		f.end(n, died) // unless this program has ended it
	})
	f.mu.Lock()
	defer f.mu.Unlock()
	n.number = len(f.nodes)
	f.nodes = append(f.nodes, n)
	return n, nil
}

// readLog waits for the node to be in the fleet: it listens before, and may never join.
func (n *node) readLog(line []byte) {
	switch msg, addr := n.child.Remember(line); msg {
	case child.SaysListening:
		n.listening = addr
	case "gateway: open":
		n.child.ListensAt(n.listening)
	}
}

// listens waits until the node listens and is in the fleet.
func (n *node) listens(ctx context.Context) error {
	err := n.child.Listens(ctx)
	if err == nil {
		n.addr, err = netip.ParseAddrPort(n.child.Addr)
	}
	if err != nil {
		return fmt.Errorf("%s: %w", n.name, err)
	}
	n.child.Keep(redisFiles)
	n.state.CompareAndSwap(starting, up)
	return nil
}

// bury forgets the nodes that have ended by themselves, and returns how.
func (f *Fleet) bury() (how []string) {
	for _, n := range f.all() {
		if n.state.Load() == died {
			f.forget(n)
			how = append(how, fmt.Sprintf("%s has ended by itself: %v", n.name, n.child.Ended(context.Background())))
		}
	}
	return how
}

// forget is for a node after its end.
func (f *Fleet) forget(n *node) {
	f.meter.Leave(n.child.PID())
	f.servers.Remove(n.child)
}
