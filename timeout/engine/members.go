package engine

import (
	"context"
	"slices"
	"strconv"
	"time"
)

// Members knows the live nodes. They only decide which node does which work: a task is safe
// whichever node leases it. Engines are Members themselves; packages etcd and zookeeper in
// timeout/members are others.
type Members interface {
	// Heartbeat declares the node alive for ttl from now, and returns the live nodes. A node calls
	// it about every third of ttl. If it fails, the node goes on with the last view. But if no call of
	// the last ttl has succeeded, the node has no part of the limits for all nodes. So no other node may
	// have a view without it earlier than ttl after the call began.
	Heartbeat(ctx context.Context, node Node, ttl time.Duration) (View, error)

	// Leave ends the membership of the node of that name.
	Leave(ctx context.Context, name string) error
}

// Node is a running center.
type Node struct {
	// Name is unique among the running nodes. If two have the same, tasks are safe, but the nodes
	// share the slots of one. View.Other tells them.
	Name string `json:"name"`

	// Topics are the topics whose tasks the node can run, in order. Nil means all, and empty means
	// none. Callbacks is among them if the node makes the callbacks of single tasks of any topic, and
	// HandlersOnly if it makes none.
	Topics []string `json:"topics"`

	// Run is a random id for one run of the node. Empty is unknown: the node is of an earlier
	// version. The nodes of a View have none.
	Run string `json:"run,omitempty"`
}

// Other returns run if another node has it, and an empty string if it is n's or one is unknown.
func (n Node) Other(run string) string {
	if n.Run == "" || run == n.Run {
		return ""
	}
	return run
}

// Callbacks stands in Node.Topics for the tasks with callbacks of their own, of all topics. No topic has that name.
const Callbacks = "*"

// HandlersOnly stands in Node.Topics of a node with handlers that makes no callbacks. Tasks with callbacks of their own
// wait while their slots belong to it. No topic has that name.
const HandlersOnly = "-"

// Serves reports whether the node runs the tasks of a topic.
func (n Node) Serves(topic string) bool {
	return n.Topics == nil || slices.Contains(n.Topics, topic)
}

// Watcher is the interface of Members that notice without a Heartbeat when a node comes or goes.
type Watcher interface {
	// Watch calls changed when the next Heartbeat will return another view. It returns when ctx
	// ends.
	Watch(ctx context.Context, changed func()) error
}

// View is the list of live nodes.
type View struct {
	// Nodes are the nodes, in the order of arrival. The first is the leader and does the work
	// that needs only one node. A node whose topics have changed keeps its place.
	Nodes []Node `json:"nodes"`

	// TTL is the longest ttl of the nodes' last heartbeats.
	TTL time.Duration `json:"-"`

	// Other is the run of another node with this node's name. It is empty unless the other has
	// sent a heartbeat since this run's last one. The first heartbeat of a run may find the record of its dead
	// predecessor. Only a later heartbeat proves two running nodes.
	Other string `json:"other,omitempty"`
}

// Leader returns the name of the first node, or an empty string.
func (v View) Leader() string {
	if len(v.Nodes) == 0 {
		return ""
	}
	return v.Nodes[0].Name
}

// Runs reports whether a node runs the tasks of a topic.
func (v View) Runs(topic string) bool {
	return slices.ContainsFunc(v.Nodes, func(n Node) bool { return n.Serves(topic) })
}

// Serves reports whether a node runs tasks of a topic, be it only those with callbacks of their own.
func (v View) Serves(topic string) bool { return v.Runs(topic) || v.Runs(Callbacks) }

// Owners returns for each slot of a topic the name of its node, or an empty string if no node
// serves the topic. If no node runs all tasks of the topic, the nodes with Callbacks have the slots. No node has more than its share, rounded up. When a node comes or goes, few
// slots but its own change hands.
//
// It is rendezvous hashing (Thaler and Ravishankar, 1996): each slot goes to the node with the
// highest hash of node, topic and slot among the nodes that still lack a part of their share.
func (v View) Owners(topic string, slots int) []string {
	owners := make([]string, slots)
	served := topic
	if !v.Runs(topic) {
		served = Callbacks
	}
	var nodes []shareholder
	for _, node := range v.Nodes {
		if node.Serves(served) {
			nodes = append(nodes, shareholder{name: node.Name, hash: hash(fnvOffset, node.Name+"\x00"+topic+"\x00")})
		}
	}
	if len(nodes) == 0 {
		return owners
	}
	share := (slots + len(nodes) - 1) / len(nodes)
	for slot := range owners {
		digits := strconv.Itoa(slot)
		var best *shareholder
		var highest uint64
		for i := range nodes {
			n := &nodes[i]
			if n.has == share {
				continue
			}
			weight := mix(hash(n.hash, digits))
			if best == nil || weight > highest || weight == highest && n.name < best.name {
				best, highest = n, weight
			}
		}
		owners[slot] = best.name
		best.has++
	}
	return owners
}

// shareholder is a node while Owners deals the slots.
type shareholder struct {
	name string
	hash uint64 // of the node and the topic
	has  int    // slots
}

// SlotsOf returns the slots that belong to the node of that name, in order, by the owners of all slots of a topic: see
// View.Owners. The result is never nil, since nil means all slots in an Ask.
func SlotsOf(owners []string, name string) []int {
	mine := []int{}
	for slot, owner := range owners {
		if owner == name {
			mine = append(mine, slot)
		}
	}
	return mine
}

// The constants of FNV-1a with 64 bits.
const (
	fnvOffset = 14695981039346656037
	fnvPrime  = 1099511628211
)

// hash continues an FNV-1a hash.
func hash(h uint64, text string) uint64 {
	for i := range len(text) {
		h = (h ^ uint64(text[i])) * fnvPrime
	}
	return h
}

// mix is the finalizer of SplitMix64. It is needed because FNV's high bits hardly depend on the
// last bytes.
func mix(x uint64) uint64 {
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	return x ^ x>>31
}
