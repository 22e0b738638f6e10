package timeout

import (
	"fmt"
	"math"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/heartwheel-go/heartwheel/timeout/engine"
	"github.com/heartwheel-go/heartwheel/timeout/memory"
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

func TestEachSlotCountsOnceItsFormerOwnerCanNotCountIt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e, err := memory.New(memory.Config{})
		require.NoError(t, err)
		defer e.Close()
		c, err := New(e, Config{Node: "a", TTL: 10 * time.Second})
		require.NoError(t, err)
		defer c.Close()
		w := newWorker(c, Topic{Name: "orders", Slots: 4, GlobalConcurrency: 4}, nil)
		defer w.drain(0)
		var owners []string
		gone := func(node string) bool { return node == "gone" }
		heartbeat := func(wait time.Duration) (counted, wanted []int) {
			w.mu.Lock()
			defer w.mu.Unlock()
			w.own(owners, gone, time.Now(), wait)
			return w.counted(time.Now()), w.wanted(time.Now())
		}
		after := func(d time.Duration, nodes ...string) (counted, wanted []int) {
			for ; d >= 2*time.Second; d -= 2 * time.Second {
				time.Sleep(2 * time.Second)
				heartbeat(10 * time.Second)
			}
			time.Sleep(d)
			owners = nodes
			return heartbeat(10 * time.Second)
		}
		counted, _ := after(0, "a", "a", "b", "gone")
		require.Empty(t, counted, "the first view")
		counted, _ = after(9*time.Second, owners...)
		require.Empty(t, counted)
		counted, _ = after(time.Second, owners...)
		require.Equal(t, []int{0, 1}, counted)

		counted, wanted := after(16*time.Second, "a", "a", "a", "gone")
		require.Equal(t, []int{0, 1}, counted, "b may not know that slot 2 has gone")
		require.Equal(t, []int{0, 1, 2}, wanted)
		counted, _ = after(5*time.Second, "a", "a", "a", "a")
		require.Equal(t, []int{0, 1, 3}, counted, "slot 3 comes from a node that has gone")
		counted, _ = after(4*time.Second, "b", "a", "a", "a")
		require.Equal(t, []int{1, 3}, counted)
		counted, wanted = after(time.Second, owners...)
		require.Equal(t, []int{1, 2, 3}, counted)
		require.Equal(t, []int{0, 1, 2, 3}, wanted, "slot 0 may not count for b yet")
		_, wanted = after(14*time.Second, owners...)
		require.Equal(t, []int{1, 2, 3}, wanted)

		owners = []string{"b", "a", "a", "a", "b", "a", "b", "a"}
		w.change(Topic{Name: "orders", Slots: 8, GlobalConcurrency: 4}, nil)
		counted, _ = heartbeat(10 * time.Second)
		require.Equal(t, []int{1, 2, 3, 5, 7}, counted, "what was counted before there were more slots")
		time.Sleep(11 * time.Second)
		counted, _ = heartbeat(10 * time.Second)
		require.Empty(t, counted, "others may have counted the node out")
		counted, _ = heartbeat(0)
		require.Equal(t, []int{1, 2, 3, 5, 7}, counted, "a node that is alone waits for nobody")
	})
}
