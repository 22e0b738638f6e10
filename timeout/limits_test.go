package timeout

import (
	"fmt"
	"math"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/heartwheel-go/heartwheel/timeout/engine"
)

// Each number of slots, each limit up to three places a slot, and each prefix of the slots: an owner
// has any of them, and the parts of all owners are sums of these.
func TestThePartsOfALimitAreTheWhole(t *testing.T) {
	for all := 1; all <= 64; all *= 2 {
		for limit := 1; limit <= 3*all+1; limit++ {
			sum, least, most := 0, math.MaxInt, 0
			for slot := range all {
				one := placesOf(limit, all, []int{slot})
				sum, least, most = sum+one, min(least, one), max(most, one)
			}
			require.Equal(t, limit, sum, "slots=%d", all)
			require.LessOrEqual(t, most-least, 1, "slots=%d/limit=%d", all, limit)
			if limit >= all {
				require.Positive(t, least, "slots=%d/limit=%d", all, limit)
			}
		}
	}
	require.Equal(t, engine.MaxGlobalConcurrency/2, placesOf(engine.MaxGlobalConcurrency, engine.MaxSlots, firstSlots(engine.MaxSlots/2)))
	require.Zero(t, placesOf(8, 4, []int{4, 9}), "slots that the topic does not have yet")
}

func firstSlots(n int) (slots []int) {
	for slot := range n {
		slots = append(slots, slot)
	}
	return slots
}

func TestTheNodesOfAViewHaveTheWholeLimit(t *testing.T) {
	for _, slots := range []int{1, 2, 8, 64} {
		topic := Topic{Name: "orders", Slots: slots, Concurrency: 1000, GlobalConcurrency: slots + 3, GlobalRate: 10}
		for nodes := 1; nodes <= 10; nodes++ {
			var view engine.View
			for i := range nodes {
				view.Nodes = append(view.Nodes, engine.Node{Name: fmt.Sprint("node-", i)})
			}
			view.Nodes = append(view.Nodes, engine.Node{Name: "other", Topics: []string{"mails"}})
			places, perSecond := 0, 0.0
			for _, node := range view.Nodes {
				own := engine.SlotsOf(view.Owners("orders", slots), node.Name)
				n, r := allowed(topic.WithDefaults(), own)
				require.Equal(t, len(own) > 0, n > 0, "a node has places if it has slots")
				places, perSecond = places+n, perSecond+r
			}
			require.Equal(t, slots+3, places)
			require.InDelta(t, 10, perSecond, 1e-9)
		}
	}
}

func TestALimitOfANodeCountsBesideOneForAll(t *testing.T) {
	for _, c := range []struct {
		topic     Topic
		slots     []int
		places    int
		perSecond float64
	}{
		{Topic{}, []int{0}, 64, math.Inf(1)},
		{Topic{}, nil, 64, math.Inf(1)},
		{Topic{Concurrency: 3, Rate: 2}, nil, 3, 2},
		{Topic{Concurrency: 3, GlobalConcurrency: 16}, []int{0}, 2, math.Inf(1)},
		{Topic{Concurrency: 3, GlobalConcurrency: 16}, []int{0, 1}, 3, math.Inf(1)},
		{Topic{Rate: 2, GlobalRate: 8}, []int{0}, 64, 1},
		{Topic{Rate: 2, GlobalRate: 8}, []int{0, 1, 2, 3}, 64, 2},
		{Topic{GlobalConcurrency: 16}, nil, 0, math.Inf(1)},
		{Topic{GlobalConcurrency: 16}, []int{}, 0, math.Inf(1)},
		{Topic{GlobalRate: 8}, nil, 0, 0},
		{Topic{GlobalRate: 8}, []int{}, 0, 0},
	} {
		places, perSecond := allowed(c.topic.WithDefaults(), c.slots)
		require.Equal(t, c.places, places, "%+v", c)
		require.InDelta(t, c.perSecond, perSecond, 0, "%+v", c)
	}
}
