package fleet

import (
	"context"
	"fmt"
)

// Balance is how the sessions of a fleet are spread.
type Balance struct {
	Nodes    int   // with a lease of their own, this one included
	Sessions int64 // of the fleet, detached ones included
	Own      int   // of this node
	Surplus  int   // of this node, above the mean of all nodes; at least 0
}

// Balance asks how the sessions are spread. After a node has joined, the others let their surplus go, once:
//
//	if b, err := node.Balance(ctx); err == nil && b.Nodes > before {
//		_, err = keeper.Shed(ctx, keepalive.Shed{Count: b.Surplus, PerSecond: 50})
//	}
//
// A session whose connection was shed by Config.Keeper waits for its client, for Config.Resume, and OnOffline is not told if
// it comes back by then. The load balancer must prefer the node with the fewest connections: otherwise most of the clients come back where they were.
//
// Balance needs Config.NodeLease on all nodes, or nobody knows how many there are: without one it returns ErrArgument. The
// other errors are those of Count.
func (n *Node) Balance(ctx context.Context) (Balance, error) {
	if n.cfg.NodeLease == 0 {
		return Balance{}, fmt.Errorf("%w: Balance without a NodeLease, which counts the nodes", ErrArgument)
	}
	nodes, err := n.store.nodes(ctx)
	if err != nil {
		return Balance{}, err
	}
	sessions, err := n.Count(ctx)
	if err != nil {
		return Balance{}, err
	}
	b := Balance{Nodes: max(nodes, 1), Sessions: sessions, Own: n.Len()}
	mean := (b.Sessions + int64(b.Nodes) - 1) / int64(b.Nodes)
	b.Surplus = max(0, b.Own-int(min(mean, int64(b.Own))))
	return b, nil
}
