package enginetest

import (
	"fmt"
	"slices"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/heartwheel-go/heartwheel/timeout/engine"
)

// testParts checks that a caller who asks each part by itself, as a center does, finds every task once, is told when each part
// has something due, and settles each outcome with its own part.
func testParts(r *rig) {
	parted := r.engine.(engine.Parted)
	require.NotEmpty(r.t, parted.Parts(unique("none"), nil), "of a missing topic nobody knows where it is")
	const slots, count = 8, 100
	r.make(engine.Topic{Slots: slots})
	r.leaseBatch(engine.Ask{Max: 1}) // so that the engine knows the topic
	parts := parted.Parts(r.topic, nil)
	require.Len(r.t, slices.Compact(slices.Sorted(slices.Values(parts))), len(parts), "no number twice")
	for i := range count {
		id := fmt.Sprint(i)
		r.set(id, past)
		part := parted.Part(r.key(id))
		require.Contains(r.t, parts, part)
		require.Contains(r.t, parted.Parts(r.topic, []int{engine.Slot(id, slots)}), part)
	}

	var outcomes []engine.Outcome
	r.eventually("all tasks are leased", func() bool {
		for _, part := range parts {
			batch := r.leaseBatch(engine.Ask{Max: count, Part: part})
			for _, one := range batch.Leased {
				require.Equal(r.t, 1, one.Attempts)
				outcomes = append(outcomes, engine.Outcome{Token: one.Token, As: engine.Pending, After: time.Hour})
			}
		}
		return len(outcomes) == count
	})
	for _, part := range parts {
		own := slices.DeleteFunc(slices.Clone(outcomes), func(o engine.Outcome) bool { return parted.Part(o.Token.Key) != part })
		for _, max := range []int{0, 1} { // told twice
			batch := r.leaseBatch(engine.Ask{Settle: own, Max: max, Part: part})
			require.NotContains(r.t, batch.Settled, max > 0)
			require.Empty(r.t, batch.Leased)
		}
	}
	for _, slot := range []int{0, slots - 1} {
		batch := r.leaseBatch(engine.Ask{Slots: []int{slot}, Max: 1, Part: parts[0]})
		require.Empty(r.t, batch.Leased)
		require.WithinDuration(r.t, r.now(), batch.Now, patient, "the time, also of a part without that slot")
	}
}
