package index_test

import (
	"fmt"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/heartwheel-go/heartwheel/timeout/engine"
	"github.com/heartwheel-go/heartwheel/timeout/index"
)

// twoNodes returns a wheel each in front of the same table.
func twoNodes(t *testing.T) (a, b *index.Engine) {
	path := filepath.Join(t.TempDir(), "tasks.db")
	cfg := index.Config{Scan: 50 * time.Millisecond}
	return over(t, table(t, path), inMemory(t), cfg), over(t, table(t, path), inMemory(t), cfg)
}

// some returns tasks for all slots.
func some() (tasks []engine.Task) {
	for i := range 64 {
		tasks = append(tasks, engine.Task{Topic: "orders", ID: fmt.Sprint(i)})
	}
	return tasks
}

// One node's wheel is not told of slots added by another node. It has its first number of slots,
// and is asked for others.
func TestWhatOneNodeHasGrowAnotherServes(t *testing.T) {
	a, b := twoNodes(t)
	_, err := a.SetTopic(t.Context(), engine.Topic{Name: "orders", Slots: 2}, false)
	require.NoError(t, err)
	_, err = b.SetTopic(t.Context(), engine.Topic{Name: "orders", Slots: 8}, false)
	require.NoError(t, err)
	tasks := some()
	_, err = a.Set(t.Context(), tasks)
	require.NoError(t, err)
	leased := map[string]bool{}
	require.Eventually(t, func() bool {
		for slot := range 8 {
			batch, err := a.Lease(t.Context(), engine.Ask{Topic: "orders", Node: "a", Max: 10, Lease: time.Minute, Slots: []int{slot}})
			require.NoError(t, err)
			for _, one := range batch.Leased {
				require.False(t, leased[one.ID])
				leased[one.ID] = true
			}
		}
		return len(leased) == len(tasks)
	}, time.Minute, 10*time.Millisecond)
}

func TestWhatOneNodeMakesAnewAnotherServes(t *testing.T) {
	a, b := twoNodes(t)
	ask := engine.Ask{Topic: "orders", Node: "a", Max: 100, Lease: time.Minute, Slots: []int{0, 1}}
	_, err := a.SetTopic(t.Context(), engine.Topic{Name: "orders", Slots: 8}, false)
	require.NoError(t, err)
	_, err = a.Lease(t.Context(), ask)
	require.NoError(t, err)
	require.NoError(t, b.DropTopic(t.Context(), "orders"))
	_, err = b.SetTopic(t.Context(), engine.Topic{Name: "orders", Slots: 2}, false)
	require.NoError(t, err)
	tasks := some()
	_, err = b.Set(t.Context(), tasks)
	require.NoError(t, err)
	leased := 0
	require.Eventually(t, func() bool {
		batch, err := a.Lease(t.Context(), ask)
		require.NoError(t, err)
		leased += len(batch.Leased)
		return leased == len(tasks)
	}, time.Minute, 10*time.Millisecond)
}
