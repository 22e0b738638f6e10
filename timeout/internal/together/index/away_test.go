package index_test

import (
	"context"
	"fmt"
	"log/slog"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	goredis "github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/heartwheel-go/heartwheel/internal/testserver"
	"github.com/heartwheel-go/heartwheel/timeout"
	"github.com/heartwheel-go/heartwheel/timeout/engine"
	"github.com/heartwheel-go/heartwheel/timeout/index"
	"github.com/heartwheel-go/heartwheel/timeout/postgres"
	"github.com/heartwheel-go/heartwheel/timeout/redis"
)

// pair is a center on Redis in front of PostgreSQL.
type pair struct {
	*timeout.Center
	redis *testserver.Server
	mu    sync.Mutex
	ran   map[string]int
}

func newReal(t *testing.T) *pair {
	primary, err := postgres.Open(t.Context(), testserver.Database(t), postgres.Config{})
	require.NoError(t, err)
	t.Cleanup(func() { _ = primary.Close() })
	r := &pair{redis: testserver.Redis(t), ran: map[string]int{}}
	in, err := redis.Open(t.Context(), r.redis.URL, redis.Config{})
	require.NoError(t, err)
	r.Center, err = timeout.New(over(t, primary, in, index.Config{CallTimeout: 300 * time.Millisecond, Window: time.Second, Scan: 100 * time.Millisecond}),
		timeout.Config{Poll: 50 * time.Millisecond, Logger: slog.New(slog.DiscardHandler)})
	require.NoError(t, err)
	require.NoError(t, r.Handle("orders", func(_ context.Context, task engine.Task) error {
		r.mu.Lock()
		defer r.mu.Unlock()
		r.ran[task.ID]++
		return nil
	}))
	_, err = r.SetTopic(t.Context(), engine.Topic{Name: "orders"})
	require.NoError(t, err)
	return r
}

func (r *pair) set(t *testing.T, name string, tasks int, after time.Duration) {
	var all sync.WaitGroup
	for i := range tasks {
		all.Go(func() {
			_, err := r.Set(t.Context(), engine.Task{Topic: "orders", ID: fmt.Sprint(name, i), After: after})
			if err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
}

// awaits waits until so many tasks have run, each once.
func (r *pair) awaits(t *testing.T, tasks int) {
	t.Helper()
	require.Eventually(t, func() bool {
		r.mu.Lock()
		defer r.mu.Unlock()
		return len(r.ran) == tasks
	}, time.Minute, 10*time.Millisecond)
	r.mu.Lock()
	defer r.mu.Unlock()
	for id, times := range r.ran {
		require.Equal(t, 1, times, id)
	}
}

func TestWhatIsDueRunsWhileTheIndexIsFull(t *testing.T) {
	t.Parallel()
	r := newReal(t)
	options, err := goredis.ParseURL(r.redis.URL)
	require.NoError(t, err)
	client := goredis.NewClient(options)
	defer client.Close()
	runs(t, r.Center)
	r.set(t, "before-", 10, 0)
	r.awaits(t, 10)
	r.set(t, "later-", 1000, 3*time.Second) // beyond the window, so a scan finds them
	used := client.InfoMap(t.Context(), "memory").Val()["Memory"]["used_memory"]
	bytes, err := strconv.Atoi(strings.TrimSpace(used))
	require.NoError(t, err)
	require.NoError(t, client.ConfigSet(t.Context(), "maxmemory-policy", "noeviction").Err())
	require.NoError(t, client.ConfigSet(t.Context(), "maxmemory", strconv.Itoa(bytes-1000)).Err())
	r.set(t, "now-", 100, 0)
	r.awaits(t, 1110)
	require.NoError(t, client.ConfigSet(t.Context(), "maxmemory", "0").Err())
	r.set(t, "after-", 10, 100*time.Millisecond)
	r.awaits(t, 1120)
}

func TestWhatIsDueRunsWhileTheIndexIsAway(t *testing.T) {
	for name, lose := range map[string]func(*pair) (back func()){
		"killed":  func(r *pair) func() { r.redis.Kill(t); return func() { r.redis.Restart(t) } },
		"stopped": func(r *pair) func() { r.redis.Pause(t); return func() { r.redis.Continue(t) } },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newReal(t)
			runs(t, r.Center)
			r.set(t, "before-", 10, 0)
			r.set(t, "soon-", 100, time.Second)
			back := lose(r)
			began := time.Now()
			r.set(t, "now-", 100, 0)
			require.Less(t, time.Since(began), 20*time.Second, "it does not hold up sets")
			_, err := r.SetTopic(t.Context(), engine.Topic{Name: "new"})
			require.NoError(t, err)
			r.awaits(t, 210)
			back()
			r.set(t, "after-", 10, 100*time.Millisecond)
			r.awaits(t, 220)
		})
	}
}
