package redis_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	goredis "github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/heartwheel-go/heartwheel/timeout/engine"
	"github.com/heartwheel-go/heartwheel/timeout/redis"
)

// slotsPerRun returns how many slots a run of a script was about at most, by the number of its
// keys, of all that the slow log has. Looks of Maintain don't count: they delete nothing.
func slotsPerRun(t *testing.T, client *goredis.Client) (most int) {
	log, err := client.SlowLogGet(ctx, 10000).Result()
	require.NoError(t, err)
	for _, entry := range log {
		if entry.Args[0] == "EVALSHA" && !strings.HasSuffix(entry.Args[3], ":m") {
			var keys int
			_, err := fmt.Sscan(entry.Args[2], &keys)
			require.NoError(t, err)
			most = max(most, keys/9)
		}
	}
	require.Positive(t, most)
	return most
}

// One run of a script has Redis do nothing else, for however many slots it is.
func TestSlotsShareARunOnlyAsFarAsTheirWorkIsBounded(t *testing.T) {
	t.Parallel()
	server := startServer(t, "--slowlog-log-slower-than", "0", "--slowlog-max-len", "10000")
	client := server.client(t)
	e := openEngine(t, server, redis.Config{})
	withTopic(t, e, engine.Topic{Slots: 16, Retain: time.Millisecond})
	var tasks []engine.Task
	var removals []engine.Removal
	for i := range 2000 {
		tasks = append(tasks, engine.Task{Topic: "orders", ID: fmt.Sprint(i), After: time.Hour})
		removals = append(removals, engine.Removal{Key: key(fmt.Sprint(i))})
	}
	_, err := e.Set(ctx, tasks)
	require.NoError(t, err)
	_, err = e.Remove(ctx, removals)
	require.NoError(t, err)
	time.Sleep(20 * time.Millisecond)
	require.NoError(t, client.SlowLogReset(ctx).Err())
	for purged := (engine.Purged{More: true}); purged.More; {
		purged, err = e.Maintain(ctx)
		require.NoError(t, err)
	}
	require.Equal(t, 1, slotsPerRun(t, client), "each may delete as much as a script should")
	counts, err := e.Count(ctx, "orders")
	require.NoError(t, err)
	require.Zero(t, counts.Removed)
}

// eachSlot returns tasks, as many for each slot.
func eachSlot(slots, count int) (tasks []engine.Task) {
	left := make([]int, slots)
	for i := 0; len(tasks) < slots*count; i++ {
		if slot := engine.Slot(fmt.Sprint(i), slots); left[slot] < count {
			left[slot]++
			tasks = append(tasks, engine.Task{Topic: "orders", ID: fmt.Sprint(i), After: time.Hour})
		}
	}
	return tasks
}

// sets returns how many runs of a script it takes to set tasks, without an error of the call.
func sets(t *testing.T, server server, e *redis.Engine, tasks []engine.Task) (runs int, answers []engine.Answer) {
	before := server.calls(t, "evalsha")
	answers, err := e.Set(ctx, tasks)
	require.NoError(t, err)
	return server.calls(t, "evalsha") - before, answers
}

// A topic can have more slots than a round trip has runs.
func TestABatchOverManySlotsIsOneRunAndALargeOneIsSplit(t *testing.T) {
	t.Parallel()
	server := startServer(t)
	e := openEngine(t, server, redis.Config{})
	withTopic(t, e, engine.Topic{Slots: 32})
	set(t, e, engine.Task{ID: "first"}) // now the server knows the script
	runs, answers := sets(t, server, e, eachSlot(32, 4))
	require.Equal(t, 1, runs)
	for _, answer := range answers {
		require.NoError(t, answer.Err)
	}
	runs, _ = sets(t, server, e, eachSlot(32, 5))
	require.Equal(t, 2, runs, "more than 128 tasks")
	counts, err := e.Count(ctx, "orders")
	require.NoError(t, err)
	require.EqualValues(t, 32*5+1, counts.Pending)
}

func TestABrokenSlotCostsTheOthersOfItsRunNothing(t *testing.T) {
	t.Parallel()
	server := startServer(t)
	e := openEngine(t, server, redis.Config{})
	withTopic(t, e, engine.Topic{Slots: 4})
	set(t, e, engine.Task{ID: inSlot(2, 4)})
	broken := strings.TrimSuffix(e.SlotKey("orders", 2), "s") + "b"
	require.NoError(t, server.client(t).Set(ctx, broken, "no hash", 0).Err())
	tasks := eachSlot(4, 3)
	runs, answers := sets(t, server, e, tasks)
	require.Equal(t, 1, runs)
	for i, task := range tasks {
		if engine.Slot(task.ID, 4) == 2 {
			require.ErrorContains(t, answers[i].Err, "WRONGTYPE")
		} else {
			require.NoError(t, answers[i].Err)
			require.Equal(t, answers[i].Version, get(t, e, task.ID).Version)
		}
	}
}

// A server keeps the answers of a round trip until they are read.
func TestFewAnswersWithLargeTasksAreUnderWayAtATime(t *testing.T) {
	t.Parallel()
	server := startServer(t)
	e := openEngine(t, server, redis.Config{})
	withTopic(t, e, engine.Topic{Slots: 128})
	tasks := eachSlot(128, 8)
	for i := range tasks {
		tasks[i].After, tasks[i].Payload = 0, make([]byte, 64<<10)
	}
	for chunk := range slices.Chunk(tasks, 128) {
		_, err := e.Set(ctx, chunk)
		require.NoError(t, err)
	}
	require.NoError(t, server.client(t).ConfigResetStat(ctx).Err())
	used := server.info(t, "memory", "used_memory")
	require.Len(t, leaseBatch(t, e, engine.Ask{Max: len(tasks)}).Leased, len(tasks))
	require.Less(t, server.info(t, "memory", "used_memory_peak")-used, 32.0*(1<<20), "of 64 MiB in all")
}

// Many large tasks are asked for by their ids while they are in slots of a version before.
func TestLargeTasksThatAreAskedForByIDMoveInBoundedRuns(t *testing.T) {
	t.Parallel()
	server := startServer(t)
	e, client := openEngine(t, server, redis.Config{}), server.client(t)
	withTopic(t, e, engine.Topic{Slots: 1, Paused: true})
	var tasks []engine.Task
	var keys []engine.Key
	for i := range 40 {
		tasks = append(tasks, engine.Task{Topic: "orders", ID: fmt.Sprint(i), After: time.Hour, Payload: make([]byte, 400<<10)})
		keys = append(keys, key(fmt.Sprint(i)))
	}
	_, err := e.Set(ctx, tasks)
	require.NoError(t, err)
	before := server.info(t, "stats", "total_net_output_bytes")
	page, err := e.List(ctx, engine.Query{Topic: "orders", State: engine.Pending, Limit: 40})
	require.NoError(t, err)
	require.Len(t, page.Tasks, engine.MaxPageBytes/(400<<10))
	require.Less(t, server.info(t, "stats", "total_net_output_bytes")-before, 1.5*engine.MaxPageBytes, "the server sends little more than a page")
	growBefore(t, client, e, 4)
	require.NoError(t, client.ConfigResetStat(ctx).Err())
	got, err := e.Get(ctx, append(keys, key("never")))
	require.NoError(t, err)
	for i := range keys {
		require.Len(t, got[i].Payload, 400<<10, keys[i].ID)
	}
	require.Equal(t, engine.None, got[40].State)
	stats := client.InfoMap(ctx, "commandstats").Val()["Commandstats"]["cmdstat_evalsha"]
	var runs int
	_, err = fmt.Sscanf(stats, "calls=%d,", &runs)
	require.NoError(t, err)
	require.Greater(t, runs, 20+20+20, "two of them at a time are looked at, inserted and deleted")
}
