package enginetest

import (
	"fmt"
	"math"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/heartwheel-go/heartwheel/timeout/engine"
)

// testDeadLetters has dead tasks deleted after their time, or when there are too many.
func testDeadLetters(r *rig) {
	const each = 60
	topic := r.make(engine.Topic{Slots: 4, MaxDead: -1})
	require.Equal(r.t, engine.DefaultRetainDead, topic.RetainDead)
	byPart := make(map[string][]string) // the oldest first
	for i := range each {
		id := fmt.Sprint("dead", i)
		dead.bring(r, id)
		part := fmt.Sprint(r.opts.PartOf(r.key(id)), " ", engine.Slot(id, topic.Slots))
		byPart[part] = append(byPart[part], id)
		time.Sleep(2 * time.Millisecond) // to make one older than the other
	}
	waiting.bring(r, "waiting")
	for _, most := range []int{-1, math.MaxInt, each + 10*engine.DefaultSlots} {
		topic.MaxDead = most
		r.make(topic)
		r.maintain()
		require.Zero(r.t, r.purgedDead(), "they are neither too many nor too old: MaxDead %d", most)
		require.Equal(r.t, each, r.sizes()[engine.Dead])
	}

	topic.MaxDead = each / 3
	r.make(topic)
	// Other tests of the suite do the maintenance of this topic, too, and count the deleted tasks.
	r.eventually("what is too much is deleted, and counted", func() bool {
		r.maintain()
		left := r.sizes()[engine.Dead]
		return left <= topic.MaxDead+len(byPart) && left+r.purgedDead() == each
	})
	require.GreaterOrEqual(r.t, r.sizes()[engine.Dead], topic.MaxDead/2, "not many more are deleted")
	for part, ids := range byPart {
		kept := false
		for _, task := range r.getAll(ids...) {
			if task.State == engine.Dead {
				kept = true
			} else {
				require.False(r.t, kept, "in part %s one is deleted and an older one is kept: %s", part, task.ID)
			}
		}
	}

	time.Sleep(short)
	topic.RetainDead = short / 2
	r.make(topic)
	r.eventually("what was kept for its time is deleted, and counted", func() bool {
		r.maintain()
		return r.sizes()[engine.Dead] == 0 && r.purgedDead() == each
	})
	r.counts(engine.Counts{Pending: 1})
	require.Equal(r.t, engine.None, r.set("dead1", newDue).Was)
}

// testLate has a node ask for tasks long overdue at other nodes.
func testLate(r *rig) {
	r.make(engine.Topic{Slots: 2})
	r.set("old", past)
	r.setAll(engine.Task{Topic: r.topic, ID: "new"})
	late := engine.Ask{Max: 10, OverdueBy: long}
	var leased []engine.Leased
	r.eventually("what is late is leased", func() bool {
		leased = append(leased, r.leaseBatch(late).Leased...)
		return len(leased) > 0
	})
	for range 20 {
		leased = append(leased, r.leaseBatch(late).Leased...)
	}
	require.Len(r.t, leased, 1)
	require.Equal(r.t, "old", leased[0].ID)
	late.Settle = []engine.Outcome{{Token: leased[0].Token, As: engine.Done}}
	require.Equal(r.t, []bool{true}, r.leaseBatch(late).Settled)
	require.Equal(r.t, []bool{false}, r.leaseBatch(late).Settled)
	late.Settle = nil
	require.Equal(r.t, "new", r.ending(r.lease(1, long)[0]).ID)
	time.Sleep(2 * short)
	for range 20 {
		require.Empty(r.t, r.leaseBatch(late).Leased, "its lease has not ended for long")
	}
	require.Equal(r.t, 2, r.lease(1, long)[0].Attempts)
}
