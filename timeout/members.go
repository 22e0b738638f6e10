package timeout

import (
	"cmp"
	"context"
	"hash/fnv"
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
	var names []string
	for _, node := range v.Nodes {
		if node.Serves(topic) {
			names = append(names, node.Name)
		}
	}
	if len(names) == 0 {
		return owners
	}
	share := (slots + len(names) - 1) / len(names)
	has := make(map[string]int, len(names))
	for slot := range owners {
		slices.SortFunc(names, func(a, b string) int {
			return cmp.Or(cmp.Compare(weight(b, topic, slot), weight(a, topic, slot)), cmp.Compare(a, b))
		})
		for _, name := range names {
			if has[name] < share {
				owners[slot] = name
				has[name]++
				break
			}
		}
	}
	return owners
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

func weight(node, topic string, slot int) uint64 {
	h := fnv.New64a()
	h.Write([]byte(node + "\x00" + topic + "\x00" + strconv.Itoa(slot)))
	// FNV's high bits hardly depend on the last bytes; the finalizer of SplitMix64 mixes them.
	x := h.Sum64()
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	return x ^ x>>31
}
