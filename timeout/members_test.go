package timeout

import (
	"cmp"
	"fmt"
	"hash/fnv"
	"math/rand/v2"
	"slices"
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"
)

// ownersByHand is the definition: each slot goes to the node with the highest hash that has not
// got its share yet. Nodes of several versions must agree about it.
func ownersByHand(v View, topic string, slots int) []string {
	weight := func(node string, slot int) uint64 {
		h := fnv.New64a()
		h.Write([]byte(node + "\x00" + topic + "\x00" + strconv.Itoa(slot)))
		return mix(h.Sum64())
	}
	var names []string
	for _, node := range v.Nodes {
		if node.Serves(topic) {
			names = append(names, node.Name)
		}
	}
	owners, has := make([]string, slots), map[string]int{}
	for slot := range owners {
		slices.SortFunc(names, func(a, b string) int {
			return cmp.Or(cmp.Compare(weight(b, slot), weight(a, slot)), cmp.Compare(a, b))
		})
		for _, name := range names {
			if has[name] < (slots+len(names)-1)/len(names) {
				owners[slot] = name
				has[name]++
				break
			}
		}
	}
	return owners
}

func TestAllVersionsDealTheSameSlots(t *testing.T) {
	view := View{Nodes: []Node{{Name: "a"}, {Name: "b"}, {Name: "c"}}}
	require.Equal(t, []string{"a", "b", "b", "b", "c", "a", "a", "c"}, view.Owners("orders", 8))
	for range 200 {
		view := View{}
		for i := range rand.N(12) {
			node := Node{Name: fmt.Sprint("node-", rand.N(1000), "-", i)}
			if rand.N(4) == 0 {
				node.Topics = []string{"mails"}
			}
			view.Nodes = append(view.Nodes, node)
		}
		slots := 1 << rand.N(8)
		require.Equal(t, ownersByHand(view, "orders", slots), view.Owners("orders", slots))
	}
}

func TestViewsWithTheSameNodesAreTheSame(t *testing.T) {
	view := func(term int64, nodes ...Node) View { return View{Term: term, Nodes: nodes} }
	a, b := Node{Name: "a", Topics: []string{"x"}}, Node{Name: "b"}
	require.True(t, view(1, a, b).same(view(1, a, b)))
	require.True(t, View{}.same(View{}))
	for _, other := range []View{
		{},
		view(2, a, b), view(1, a), view(1, b, a), view(1, a, b, b),
		view(1, Node{Name: "a", Topics: []string{"y"}}, b), view(1, a, Node{Name: "b", Topics: []string{}}),
	} {
		require.False(t, view(1, a, b).same(other), "%v", other)
	}
}

// A beat of a node with many topics: Set waits for c.mu meanwhile.
func BenchmarkAdopt(b *testing.B) {
	const topics, slots, nodes = 256, 64, 20
	view := View{Term: 1}
	names := make([]string, topics)
	c := &Center{workers: map[string]*worker{}, topics: map[string]Topic{}, cfg: Config{Node: "node-7"}}
	for i := range names {
		names[i] = fmt.Sprintf("topic-%03d", i)
		c.topics[names[i]] = Topic{Name: names[i], Slots: slots}
		c.workers[names[i]] = &worker{c: c, name: names[i], nudges: make(chan struct{}, 1), topic: c.topics[names[i]].WithDefaults()}
	}
	for i := range nodes {
		view.Nodes = append(view.Nodes, Node{Name: fmt.Sprint("node-", i), Topics: names})
	}
	for name, step := range map[string]int64{"view=same": 0, "view=other": 1} {
		b.Run(fmt.Sprintf("%s/topics=%d/slots=%d/nodes=%d", name, topics, slots, nodes), func(b *testing.B) {
			for b.Loop() {
				view.Term += step
				c.adopt(view)
			}
		})
	}
}
