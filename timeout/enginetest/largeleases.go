package enginetest

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/heartwheel-go/heartwheel/timeout/engine"
)

// LargePayloads checks that payloads of a MiB come a few at a time. A call may ask for a
// thousand tasks, and neither memory nor other writers should have to bear that. The topic t
// must exist and have no tasks.
func LargePayloads(t *testing.T, e engine.Primary) {
	t.Helper()
	const all = 7
	for i := range all {
		_, err := e.Set(t.Context(), []engine.Task{{Topic: "t", ID: fmt.Sprint(i), Payload: make([]byte, engine.MaxPayload)}})
		require.NoError(t, err)
	}
	time.Sleep(5 * time.Millisecond)

	scanned, err := e.ScanBefore(t.Context(), "t", nil, time.Now().Add(time.Hour), "", 100)
	require.NoError(t, err)
	claimed, err := e.Claim(t.Context(), "t", "claimer", scanned.Wanted, time.Minute)
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
		batch, err := e.Lease(t.Context(), engine.Ask{Topic: "t", Node: "n", Max: 1000, Lease: time.Minute})
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
		page, err := e.List(t.Context(), engine.Query{Topic: "t", State: engine.Running, Limit: 1000, Cursor: cursor})
		require.NoError(t, err)
		require.LessOrEqual(t, len(page.Tasks), 5)
		for _, task := range page.Tasks {
			require.Len(t, task.Payload, engine.MaxPayload)
			seen[task.ID] = true
		}
		cursor = page.Next
	}
	require.Len(t, seen, all)
}
