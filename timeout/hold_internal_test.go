package timeout

import (
	"strconv"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/heartwheel-go/heartwheel/timeout/engine"
	"github.com/heartwheel-go/heartwheel/timeout/memory"
)

func TestTheSearchForTasksWithCallbacksOfTheirOwnGetsToTheLastDueTaskBeforeItBeginsAnew(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e, err := memory.New(memory.Config{})
		require.NoError(t, err)
		defer e.Close()
		c, err := New(e, Config{})
		require.NoError(t, err)
		defer c.Close()
		w := newWorker(c, Topic{Name: "orders"}, nil)
		defer w.drain(0)
		begin := time.Now()
		w.mu.Lock()
		w.hold.unable, w.hold.stranded, w.hold.leases = true, overdue{begin, begin.Add(24 * time.Hour)}, leaseNone
		w.mu.Unlock()
		const pages = 2000 // more than there are looks before it begins anew
		looks := make([]int, pages)
		for now := begin; now.Sub(begin) < time.Hour; now = now.Add(searchEvery) {
			query, holds, due := w.seeks(now)
			require.True(t, holds)
			if !due {
				continue
			}
			at, _ := strconv.Atoi(query.Cursor)
			looks[at]++
			page := engine.Page{Tasks: []engine.Task{{Until: begin}}}
			if at+1 < pages {
				page.Next = strconv.Itoa(at + 1)
			}
			w.found(query, page, nil, now)
		}
		for _, n := range looks[:1000] {
			require.Equal(t, 2, n)
		}
		require.Equal(t, 1, looks[pages-2])
		require.Greater(t, looks[pages-1], 10, "then it looks for what comes after")

		query, _, _ := w.seeks(begin.Add(time.Hour))
		w.found(query, engine.Page{Tasks: []engine.Task{{Callback: &engine.Callback{Kind: "http"}}}}, nil, begin.Add(time.Hour))
		_, holds, _ := w.seeks(begin.Add(time.Hour))
		require.False(t, holds, "one is found")
	})
}
