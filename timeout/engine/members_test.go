package engine

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
