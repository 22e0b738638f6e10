package timeout

import (
	"context"
	"slices"
	"strconv"
	"time"
)

// Members knows which nodes there are. Nothing depends on it but who does what: a task is
// safe whoever leases it. Engines are Members themselves; packages etcd and zookeeper in
// timeout/members are others.
type Members interface {
	// Beat says that node lives, and for ttl from now on, and returns who does. It is called
	// about every third of ttl. Where it fails, the last view goes on being used.
	Beat(ctx context.Context, node Node, ttl time.Duration) (View, error)

	// Leave says that the node of that name is going away.
	Leave(ctx context.Context, name string) error
}

// Node is a centre that runs.
type Node struct {
	// Name is another one for each that runs.
	Name string `json:"name"`

	// Topics are those that the node serves, in order. Nil means all, and empty means none.
	Topics []string `json:"topics"`
}

// Serves reports whether the node runs the tasks of a topic.
func (n Node) Serves(topic string) bool {
	return n.Topics == nil || slices.Contains(n.Topics, topic)
}

// Watcher is what Members have besides that notice by themselves when a node comes or goes.
type Watcher interface {
	// Watch calls changed when the next Beat will return another view. It returns when ctx
	// ends.
	Watch(ctx context.Context, changed func()) error
}

// View is which nodes there are.
type View struct {
	// Term is higher for each later view.
	Term int64 `json:"term"`

	// Nodes are the nodes, in the order in which they came. The first is the leader, which
	// does what one is enough for. A node whose topics have changed keeps its place.
	Nodes []Node `json:"nodes"`
}

// Leader returns the name of the first node, or an empty string.
func (v View) Leader() string {
	if len(v.Nodes) == 0 {
		return ""
	}
	return v.Nodes[0].Name
}

// Owners returns for each slot of a topic the name of the node that it belongs to, which is
// empty where no node serves the topic. No node has more than its share, rounded up, and
// when one comes or goes few slots but its own change hands.
//
// It is rendezvous hashing (Thaler and Ravishankar, 1996): each slot goes to the node with
// the highest hash of both that has not got its share yet.
func (v View) Owners(topic string, slots int) []string {
	owners := make([]string, slots)
	var nodes []shareholder
	for _, node := range v.Nodes {
		if node.Serves(topic) {
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

// shareholder is a node while slots are dealt.
type shareholder struct {
	name string
	hash uint64 // of the node and the topic
	has  int    // slots
}

// Slots returns the slots of a topic that belong to the node of that name, in order. A node
// that is not in the view has none. It is never nil, which an Ask would take for all.
func (v View) Slots(topic, name string, slots int) []int {
	mine := []int{}
	for slot, owner := range v.Owners(topic, slots) {
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

// hash goes on with an FNV-1a.
func hash(h uint64, text string) uint64 {
	for i := range len(text) {
		h = (h ^ uint64(text[i])) * fnvPrime
	}
	return h
}

// mix is the finalizer of SplitMix64: FNV's high bits hardly depend on the last bytes.
func mix(x uint64) uint64 {
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	return x ^ x>>31
}

// same reports whether the slots of all topics are dealt in the same way.
func (v View) same(other View) bool {
	return v.Term == other.Term && slices.EqualFunc(v.Nodes, other.Nodes, func(a, b Node) bool {
		return a.Name == b.Name && (a.Topics == nil) == (b.Topics == nil) && slices.Equal(a.Topics, b.Topics)
	})
}
