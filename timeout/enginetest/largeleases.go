package enginetest

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/heartwheel-go/heartwheel/timeout"
)

// LargePayloads is that payloads of a MiB come a few at a time: a call may ask for a thousand
// tasks, and neither memory nor others who write should have to bear that. The topic t must be
// there, and have no tasks.
func LargePayloads(t *testing.T, engine timeout.Truth) {
	t.Helper()
	const all = 7
	for i := range all {
		_, err := engine.Set(t.Context(), []timeout.Task{{Topic: "t", ID: fmt.Sprint(i), Payload: make([]byte, timeout.MaxPayload)}})
		require.NoError(t, err)
	}
	time.Sleep(5 * time.Millisecond)

	upcoming, err := engine.Upcoming(t.Context(), "t", nil, time.Now().Add(time.Hour), "", 100)
	require.NoError(t, err)
	claimed, err := engine.Claim(t.Context(), "t", "claimer", upcoming.Wanted, time.Minute)
	require.NoError(t, err)
	leased := 0
	for _, c := range claimed {
		if c.OK {
			leased++
		} else {
			require.False(t, c.At.IsZero(), "it can be wanted again")
		}
	}
	require.Contains(t, []int{4, 5}, leased)

	for calls := 0; leased < all; calls++ {
		require.Less(t, calls, 4)
		batch, err := engine.Expire(t.Context(), timeout.Ask{Topic: "t", Node: "n", Max: 1000, Lease: time.Minute})
		require.NoError(t, err)
		require.NotEmpty(t, batch.Leased)
		require.LessOrEqual(t, len(batch.Leased), 5)
		leased += len(batch.Leased)
		if leased < all {
			require.False(t, batch.Next.After(batch.Now), "there is more at once")
		}
	}

	seen := make(map[string]bool)
	for cursor, pages := "", 0; pages == 0 || cursor != ""; pages++ {
		require.Less(t, pages, all)
		page, err := engine.List(t.Context(), timeout.Query{Topic: "t", State: timeout.Running, Limit: 1000, Cursor: cursor})
		require.NoError(t, err)
		require.LessOrEqual(t, len(page.Tasks), 5)
		for _, task := range page.Tasks {
			require.Len(t, task.Payload, timeout.MaxPayload)
			seen[task.ID] = true
		}
		cursor = page.Next
	}
	require.Len(t, seen, all)
}
