package index_test

import (
	"context"
	"fmt"
	"log/slog"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/heartwheel-go/heartwheel/internal/testserver"
	"github.com/heartwheel-go/heartwheel/timeout"
	"github.com/heartwheel-go/heartwheel/timeout/engine"
	"github.com/heartwheel-go/heartwheel/timeout/index"
	"github.com/heartwheel-go/heartwheel/timeout/redis"
)

// The clock of the primary decides. The clock of the index may be wrong, and change while it runs.
func TestAnIndexWhoseClockIsWrongFindsWhatIsDueInTime(t *testing.T) {
	server := testserver.RedisWithClock(t)
	server.SetClock(t, -time.Hour)
	in, err := redis.Open(t.Context(), server.URL, redis.Config{})
	require.NoError(t, err)
	e := over(t, table(t, filepath.Join(t.TempDir(), "tasks.db")), in, index.Config{})
	center, err := timeout.New(e, timeout.Config{Poll: 50 * time.Millisecond, Logger: slog.New(slog.DiscardHandler)})
	require.NoError(t, err)
	var mu sync.Mutex
	late := map[string][]time.Duration{}
	require.NoError(t, center.Handle("orders", func(_ context.Context, task engine.Task) error {
		mu.Lock()
		defer mu.Unlock()
		late[task.ID] = append(late[task.ID], time.Since(task.Due))
		return nil
	}))
	set := func(name string, after time.Duration) {
		for i := range 20 {
			_, err := center.Set(t.Context(), engine.Task{Topic: "orders", ID: fmt.Sprint(name, i), After: after + time.Duration(i)*20*time.Millisecond})
			require.NoError(t, err)
		}
	}
	set("before", 0) // nobody has looked at the index's clock yet
	runs(t, center)
	tasks := 20
	for round, ahead := range []time.Duration{-time.Hour, time.Hour, -time.Hour, 0} {
		server.SetClock(t, ahead)
		set(fmt.Sprint("round-", round, "-"), 500*time.Millisecond)
		tasks += 20
		require.Eventually(t, func() bool {
			mu.Lock()
			defer mu.Unlock()
			return len(late) == tasks
		}, time.Minute, 5*time.Millisecond)
	}
	latest := time.Duration(0)
	for id, all := range late {
		require.Len(t, all, 1, id)
		require.GreaterOrEqual(t, all[0], time.Duration(0), "%s is early", id)
		latest = max(latest, all[0])
	}
	require.Less(t, latest, 30*time.Second, "nothing waits for the index's clock")
	t.Logf("the latest was %v after its time", latest)
}
