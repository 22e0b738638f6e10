package enginetest

import (
	"fmt"
	"sync"

	"github.com/stretchr/testify/require"

	"github.com/heartwheel-go/heartwheel/timeout/engine"
)

// testPulls asks for all slots, as timeout.Center.Pull does on any node, while nodes ask for their own
// slots. Each task is leased once.
func testPulls(r *rig) {
	const slots, askers, tasks = 4, 4, 200
	r.make(engine.Topic{Slots: slots, Lease: long, Pull: true})
	var all []engine.Task
	for i := range tasks {
		all = append(all, r.task(fmt.Sprint(i), past))
	}
	r.setAll(all...)
	var mu sync.Mutex
	leased := make(map[string]int)
	var asking sync.WaitGroup
	for i := range askers {
		eng := []engine.Engine{r.engine, r.second}[i/2%2]
		ask := r.ask(engine.Ask{Node: fmt.Sprint("asker", i), Max: 7})
		if i%2 == 0 {
			ask.Slots = []int{i, i + 1}
		}
		asking.Go(func() {
			for range tasks / 7 {
				batch, err := eng.Lease(r.ctx, ask)
				if err != nil {
					r.t.Error(err)
					return
				}
				mu.Lock()
				for _, one := range batch.Leased {
					leased[one.ID]++
				}
				mu.Unlock()
			}
		})
	}
	asking.Wait()
	r.eventually("all tasks are leased", func() bool {
		for _, one := range r.leaseBatch(engine.Ask{Max: tasks}).Leased {
			leased[one.ID]++
		}
		return len(leased) == tasks
	})
	for id, n := range leased {
		require.Equal(r.t, 1, n, "leases of %s", id)
	}
}
