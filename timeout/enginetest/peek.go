package enginetest

import (
	"time"

	"github.com/stretchr/testify/require"

	"github.com/heartwheel-go/heartwheel/timeout/engine"
)

// testPeek checks that a peek is never later than the task, and that it sees what waits and what runs.
func testPeek(r *rig) {
	peeker := r.engine.(engine.Peeker)
	peek := func(slots []int) time.Duration {
		r.t.Helper()
		waits, err := peeker.Peek(r.ctx, []engine.Peek{{Topic: unique("none")}, {Topic: r.topic, Slots: slots}})
		require.NoError(r.t, err)
		require.Len(r.t, waits, 2)
		require.LessOrEqual(r.t, waits[0], time.Duration(0), "a missing topic")
		return waits[1]
	}
	// An engine may say "ask now" without a reason, as one does with a server that is slow to answer.
	wait := func(slots []int) (wait time.Duration) {
		r.t.Helper()
		r.eventually("nothing is due", func() bool { wait = peek(slots); return wait > 0 })
		return wait
	}
	waits, err := peeker.Peek(r.ctx, nil)
	require.NoError(r.t, err)
	require.Empty(r.t, waits)

	const slots = 4
	r.make(engine.Topic{Slots: slots, Lease: long})
	if r.opts.NoPeek {
		_, err := peeker.Peek(r.ctx, []engine.Peek{{Topic: r.topic}})
		require.ErrorIs(r.t, err, engine.ErrUnsupported)
		return
	}
	r.leaseBatch(engine.Ask{Max: 1}) // so that the engine knows the topic
	require.Equal(r.t, engine.NothingDue, wait(nil))

	year9999 := time.Date(9999, 12, 31, 23, 59, 59, 0, time.UTC)
	r.set("far", year9999)
	require.Greater(r.t, wait(nil), 100*365*24*time.Hour)
	require.Less(r.t, wait(nil), engine.NothingDue)

	r.set("a", r.later())
	own := []int{engine.Slot("a", slots)}
	for _, asked := range [][]int{nil, {0, 1, 2, 3}, own} {
		require.LessOrEqual(r.t, peek(asked), long)
		require.Greater(r.t, wait(asked), long-patient)
	}
	r.move("a", r.now().Add(2*long))
	require.LessOrEqual(r.t, peek(own), 2*long, "moved to a later time")
	r.move("a", past)
	require.LessOrEqual(r.t, peek(own), time.Duration(0), "due")
	leased := r.lease(1, long)
	require.LessOrEqual(r.t, peek(own), long, "until the end of the lease")
	require.Greater(r.t, wait(own), long-patient)
	r.settle(engine.Outcome{Token: leased[0].Token, As: engine.Dead})
	r.remove("far")
	require.Equal(r.t, engine.NothingDue, wait(nil))
}
