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
func LargePayloads(t *testing.T, e engine.Truth) {
	t.Helper()
	const all = 7
	for i := range all {
		_, err := e.Set(t.Context(), []engine.Task{{Topic: "t", ID: fmt.Sprint(i), Payload: make([]byte, engine.MaxPayload)}})
		require.NoError(t, err)
	}
	time.Sleep(5 * time.Millisecond)

	upcoming, err := e.Upcoming(t.Context(), "t", nil, time.Now().Add(time.Hour), "", 100)
	require.NoError(t, err)
	claimed, err := e.Claim(t.Context(), "t", "claimer", upcoming.Wanted, time.Minute)
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
		batch, err := e.Expire(t.Context(), engine.Ask{Topic: "t", Node: "n", Max: 1000, Lease: time.Minute})
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

// testOutlivedAmongOthers has tasks outlive their leases, beside waiting ones with and without a failed
// attempt. A call leases fewer than are due.
func testOutlivedAmongOthers(r *rig) {
	r.make(engine.Topic{Slots: 1})
	for _, size := range []int{1, engine.MaxPayload} {
		const each = 4
		set := func(name string) {
			for i := range each {
				task := r.task(fmt.Sprint(name, size, "-", i), past)
				task.Payload = make([]byte, size)
				r.setAll(task)
			}
		}
		leases := func() (tokens []engine.Token) {
			for _, leased := range r.lease(each, long) {
				tokens = append(tokens, leased.Token)
			}
			return tokens
		}
		set("failed")
		for _, token := range leases() {
			r.settle(engine.Outcome{Token: token, As: engine.Pending, After: long, Error: "failed"})
		}
		set("lost")
		lost := leases()
		set("new")
		for i := range each {
			r.move(fmt.Sprint("failed", size, "-", i), past)
		}
		r.extend(short, lost...)
		time.Sleep(2 * short)

		got, want := map[string][]any{}, map[string][]any{}
		for len(got) < 3*each {
			batch := r.expire(engine.Ask{Max: each + 1})
			require.NotEmpty(r.t, batch.Leased)
			for _, leased := range batch.Leased {
				require.NotContains(r.t, got, leased.ID)
				require.Len(r.t, leased.Payload, size)
				got[leased.ID] = []any{leased.Attempts, leased.Failures, leased.Again}
			}
		}
		for i := range each {
			for name, of := range map[string][]any{"failed": {2, 1, false}, "lost": {2, 1, true}, "new": {1, 0, false}} {
				want[fmt.Sprint(name, size, "-", i)] = of
			}
		}
		require.Equal(r.t, want, got, "attempts, failures, and whether a lease was lost")
	}
}
