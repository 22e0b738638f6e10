package memory_test

import (
	"strconv"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/heartwheel-go/heartwheel/timeout/engine"
	"github.com/heartwheel-go/heartwheel/timeout/memory"
)

// Very many tasks can be set at once, and each call of wake has a goroutine.
func TestTheFirstTaskOfASlotWakes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e, err := memory.New(memory.Config{})
		require.NoError(t, err)
		defer e.Close()
		_, err = e.SetTopic(t.Context(), engine.Topic{Name: "orders", Slots: 4}, true)
		require.NoError(t, err)
		var told atomic.Int64
		go func() {
			_ = e.Wake(t.Context(), func(topic string) {
				if topic == "orders" {
					told.Add(1)
				}
			}, func(engine.Key) {})
		}()
		synctest.Wait()
		due := time.Now().Add(time.Minute)
		tasks := make([]engine.Task, 1000)
		for i := range tasks {
			tasks[i] = engine.Task{Topic: "orders", ID: strconv.Itoa(i), Due: due}
		}
		_, err = e.Set(t.Context(), tasks)
		require.NoError(t, err)
		expect := func(calls int64) {
			t.Helper()
			synctest.Wait()
			require.Equal(t, calls, told.Swap(0))
		}
		expect(4)
		time.Sleep(time.Minute)
		expect(0)

		set := func(after time.Duration) {
			_, err := e.Set(t.Context(), []engine.Task{{Topic: "orders", ID: "0", Due: due.Add(after)}})
			require.NoError(t, err)
		}
		set(1)
		expect(0)
		set(-time.Second)
		expect(1)
		for leased := 0; leased < len(tasks); {
			batch, err := e.Lease(t.Context(), engine.Ask{Topic: "orders", Max: 100, Lease: time.Hour})
			require.NoError(t, err)
			require.NotEmpty(t, batch.Leased)
			leased += len(batch.Leased)
		}
		expect(0)
		set(1)
		expect(1)
	})
}
