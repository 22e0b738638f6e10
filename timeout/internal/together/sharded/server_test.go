package sharded_test

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/heartwheel-go/heartwheel/internal/testserver"
	"github.com/heartwheel-go/heartwheel/timeout"
	"github.com/heartwheel-go/heartwheel/timeout/engine"
	"github.com/heartwheel-go/heartwheel/timeout/postgres"
	"github.com/heartwheel-go/heartwheel/timeout/sharded"
)

// Two servers of PostgreSQL. One of them is killed, and later silent.
func TestAServerThatIsAwayHoldsUpOnlyWhatItHas(t *testing.T) {
	t.Parallel()
	servers := []*testserver.Server{testserver.SharedPostgres(t), testserver.Postgres(t, testserver.NoFsync)}
	urls := []string{testserver.Database(t), servers[1].URL}
	var openers []func(context.Context) (*postgres.Engine, error)
	for _, url := range urls {
		openers = append(openers, func(ctx context.Context) (*postgres.Engine, error) {
			return postgres.Open(ctx, url+"&pool_max_conns=8", postgres.Config{})
		})
		alone, err := postgres.Open(t.Context(), url, postgres.Config{}) // making the tables may take more than CallTimeout
		require.NoError(t, err)
		require.NoError(t, alone.Close())
	}
	var e engine.Engine
	require.EventuallyWithT(t, func(c *assert.CollectT) { // a busy machine may be silent for a second
		var err error
		e, err = sharded.Open(t.Context(), openers, sharded.Config{CallTimeout: time.Second, Logger: silent})
		require.NoError(c, err)
	}, time.Minute, 50*time.Millisecond)
	defer func() { require.NoError(t, e.Close()) }()
	center, err := timeout.New(e, timeout.Config{Topic: engine.Topic{Lease: 5 * time.Second}, Poll: 100 * time.Millisecond, Logger: silent})
	require.NoError(t, err)
	var mu sync.Mutex
	ran := map[string]int{}
	require.NoError(t, center.Handle("orders", func(_ context.Context, task engine.Task) error {
		mu.Lock()
		defer mu.Unlock()
		ran[task.ID]++
		return nil
	}))
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- center.Run(ctx) }()
	defer func() { cancel(); require.NoError(t, <-ended); require.NoError(t, center.Close()) }()

	set := ids("orders", 2, 60)
	do := func(what string, ids []string, after time.Duration) {
		t.Helper()
		for _, id := range ids {
			require.EventuallyWithT(t, func(c *assert.CollectT) { // a busy machine may be silent for a second
				_, err := center.Set(t.Context(), engine.Task{Topic: "orders", ID: id, After: after})
				assert.NoError(c, err, what)
			}, time.Minute, 50*time.Millisecond)
		}
	}
	have := func(what string, ids []string, times int) {
		t.Helper()
		require.Eventually(t, func() bool {
			mu.Lock()
			defer mu.Unlock()
			return !slices.ContainsFunc(ids, func(id string) bool { return ran[id] < times })
		}, time.Minute, 10*time.Millisecond, what)
	}
	missing := func(ids []string) (missing []string) {
		mu.Lock()
		defer mu.Unlock()
		for _, id := range ids {
			if ran[id] == 0 {
				missing = append(missing, id)
			}
		}
		return missing
	}
	do("both are there", slices.Concat(set[0][:10], set[1][:10]), 0)
	have("both are there", slices.Concat(set[0][:10], set[1][:10]), 1)
	for n, trouble := range []struct {
		what       string
		begin, end func(testing.TB)
	}{
		{"killed", servers[1].Kill, servers[1].Restart},
		{"silent", servers[1].Pause, servers[1].Continue},
	} {
		some := func(index int) []string { return set[index][10+20*n : 30+20*n] }
		do(trouble.what, some(1)[:10], time.Second)
		trouble.begin(t)
		require.Eventually(t, func() bool {
			_, err := center.Set(t.Context(), engine.Task{Topic: "orders", ID: some(1)[10]})
			return err != nil
		}, time.Minute, 10*time.Millisecond, "%s: and found to be away", trouble.what)
		do(trouble.what, some(0), 0)
		have(trouble.what, some(0), 1)
		require.Eventually(t, func() bool { // tasks leased before still run, however long they have to wait
			s := center.Stats()[0]
			return s.Queued == 0 && s.Running == 0
		}, time.Minute, 10*time.Millisecond, trouble.what)
		waits := missing(some(1))
		t.Logf("%s: %d tasks wait", trouble.what, len(waits))
		time.Sleep(1500 * time.Millisecond)
		require.Equal(t, waits, missing(some(1)))
		_, err := center.Set(t.Context(), engine.Task{Topic: "orders", ID: some(1)[10]})
		require.ErrorContains(t, err, "shard 2 of 2", trouble.what)
		trouble.end(t)
		have(fmt.Sprint("no longer ", trouble.what), some(1)[:10], 1)
		do(trouble.what, some(1)[10:], 0)
		have(fmt.Sprint("no longer ", trouble.what), some(1), 1)
	}
}

// ids returns each ids for each shard.
func ids(topic string, shards, each int) [][]string {
	all := make([][]string, shards)
	for n := 0; slices.ContainsFunc(all, func(some []string) bool { return len(some) < each }); n++ {
		id := fmt.Sprint(n)
		if p := sharded.ShardOf(engine.Key{Topic: topic, ID: id}, shards); len(all[p]) < each {
			all[p] = append(all[p], id)
		}
	}
	return all
}
