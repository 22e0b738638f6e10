package redis_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/heartwheel-go/heartwheel/timeout/engine"
	"github.com/heartwheel-go/heartwheel/timeout/redis"
)

// calls returns how often the server has run a command.
func (s server) calls(t testing.TB, command string) (calls int) {
	stats := s.client(t).InfoMap(ctx, "commandstats").Val()["Commandstats"]["cmdstat_"+command]
	if stats != "" {
		_, err := fmt.Sscanf(stats, "calls=%d,", &calls)
		require.NoError(t, err)
	}
	return calls
}

// purge calls Maintain until nothing is left to do, and returns the number of deleted dead tasks.
func purge(t testing.TB, e *redis.Engine) (dead int) {
	for purged := (engine.Purged{More: true}); purged.More; {
		var err error
		purged, err = e.Maintain(ctx)
		require.NoError(t, err)
		for _, n := range purged.Dead {
			dead += n
		}
	}
	return dead
}

func TestMaintenanceOfIdleTopicsSharesRuns(t *testing.T) {
	t.Parallel()
	server := startServer(t)
	e := openEngine(t, server, redis.Config{})
	for i := range 64 {
		withTopic(t, e, engine.Topic{Name: fmt.Sprint("idle-", i), Slots: 8})
	}
	require.NoError(t, server.client(t).ConfigResetStat(ctx).Err())
	require.Zero(t, purge(t, e))
	require.LessOrEqual(t, server.calls(t, "evalsha"), 64*8/128+1, "128 slots to a run")
	require.Zero(t, server.calls(t, "hget"), "topics are read together, once")
}

// Each way for a slot to have something to do, beside tasks that stay.
func TestMaintenanceFindsWhateverASlotHasToDo(t *testing.T) {
	t.Parallel()
	e := openEngine(t, startServer(t), redis.Config{})
	const each = 40
	withTopic(t, e, engine.Topic{Name: "short", Slots: 4, Retain: time.Millisecond, RetainDead: time.Hour})
	withTopic(t, e, engine.Topic{Name: "long", Slots: 4, Retain: time.Hour, RetainDead: time.Millisecond})
	withTopic(t, e, engine.Topic{Name: "most", Slots: 4, Retain: time.Hour, RetainDead: time.Hour, MaxDead: 8})
	for _, topic := range []string{"short", "long", "most"} {
		var tasks []engine.Task
		for i := range 3 * each {
			tasks = append(tasks, engine.Task{Topic: topic, ID: fmt.Sprint(i)})
		}
		_, err := e.Set(ctx, tasks)
		require.NoError(t, err)
		settle := engine.Ask{Topic: topic}
		for i, leased := range leaseBatch(t, e, engine.Ask{Topic: topic, Max: 2 * each}).Leased {
			as := engine.Done
			if i%2 == 1 {
				as = engine.Dead
			}
			settle.Settle = append(settle.Settle, engine.Outcome{Token: leased.Token, As: as})
		}
		require.Len(t, settle.Settle, 2*each)
		leaseBatch(t, e, settle)
		_, err = e.Remove(ctx, []engine.Removal{{Key: settle.Settle[0].Token.Key}})
		require.NoError(t, err)
		var removals []engine.Removal
		for i := range tasks {
			removals = append(removals, engine.Removal{Key: tasks[i].Key(), State: engine.Pending})
		}
		_, err = e.Remove(ctx, removals)
		require.NoError(t, err)
	}
	time.Sleep(20 * time.Millisecond) // at least: the retention has ended
	require.Equal(t, each+each-8, purge(t, e))
	for topic, want := range map[string][3]int64{"short": {0, each, 0}, "long": {each, 0, each}, "most": {each, 8, each}} {
		counts, err := e.Count(ctx, topic)
		require.NoError(t, err)
		require.Equal(t, want, [3]int64{counts.Done, counts.Dead, counts.Removed}, topic)
	}
}

// Tasks with the same text in braces are in one slot. They have the whole MaxDead of the topic.
func TestDeadTasksOfOneSlotHaveTheRoomOfAll(t *testing.T) {
	t.Parallel()
	e := openEngine(t, sharedServer(t), redis.Config{})
	const most = 40
	withTopic(t, e, engine.Topic{Slots: 4, MaxDead: most})
	die := func(name string, count int) {
		tasks := make([]engine.Task, count)
		for i := range tasks {
			tasks[i] = engine.Task{Topic: "orders", ID: fmt.Sprint(name, i)}
		}
		setAll(t, e, tasks)
		settle := engine.Ask{}
		for _, leased := range leaseBatch(t, e, engine.Ask{Max: count}).Leased {
			settle.Settle = append(settle.Settle, engine.Outcome{Token: leased.Token, As: engine.Dead})
		}
		require.Len(t, settle.Settle, count)
		leaseBatch(t, e, settle)
	}
	die("{one}", most)
	require.Zero(t, purge(t, e), "there are no more than MaxDead")
	one := engine.Slot("{one}", 4)
	for slot := range 4 {
		if slot != one {
			die("{"+inSlot(slot, 4)+"}", 2)
		}
	}
	require.Equal(t, 6, purge(t, e), "the slot with the most loses them")
	for slot := range 4 {
		if slot != one {
			for i := range 2 {
				require.Equal(t, engine.Dead, get(t, e, fmt.Sprint("{", inSlot(slot, 4), "}", i)).State)
			}
		}
	}
	require.Zero(t, purge(t, e))
}

// A process may stop after it has changed a topic and before its slots know.
func TestMaintenanceTellsSlotsOfAChangedTopic(t *testing.T) {
	t.Parallel()
	e := openEngine(t, startServer(t), redis.Config{})
	withTopic(t, e, engine.Topic{Slots: 4, Retain: time.Hour})
	set(t, e, engine.Task{ID: "1"})
	crash := errors.New("crash")
	e.OnStep(func(name string) error {
		if name == "tell" {
			return crash
		}
		return nil
	})
	_, err := e.SetTopic(ctx, engine.Topic{Name: "orders", Retain: time.Millisecond}, false)
	require.ErrorIs(t, err, crash)
	e.OnStep(func(string) error { return nil })
	_, err = e.Remove(ctx, []engine.Removal{{Key: key("1")}})
	require.NoError(t, err)
	time.Sleep(20 * time.Millisecond) // at least
	purge(t, e)
	counts, err := e.Count(ctx, "orders")
	require.NoError(t, err)
	require.Zero(t, counts.Removed)
}

// Two processes change a topic, and the slots hear of the later change first.
func TestSlotsKeepTheLaterChangeOfATopic(t *testing.T) {
	t.Parallel()
	server := startServer(t)
	e := openEngine(t, server, redis.Config{PollInterval: -1})
	second := openEngine(t, server, redis.Config{Prefix: e.Prefix()})
	withTopic(t, e, engine.Topic{Slots: 1})
	set(t, e, engine.Task{ID: "1"})
	e.OnStep(func(name string) error {
		if name != "tell" {
			return nil
		}
		_, err := second.Pause(ctx, "orders", true, time.Time{})
		return err
	})
	_, err := e.SetTopic(ctx, engine.Topic{Name: "orders", Retries: 3}, false)
	require.NoError(t, err)
	require.Empty(t, leaseBatch(t, e, engine.Ask{Max: 1}).Leased, "it is paused")
}

// Two processes migrate the same topic of a version before. One is slow, and crashes then.
func TestSlotsThatWereMadeAreNotMadeAgain(t *testing.T) {
	t.Parallel()
	server := startServer(t)
	e := openEngine(t, server, redis.Config{PollInterval: -1})
	second := openEngine(t, server, redis.Config{Prefix: e.Prefix()})
	withTopic(t, e, engine.Topic{Slots: 1})
	growBefore(t, server.client(t), e, 2)
	crash := errors.New("crash")
	e.OnStep(func(name string) (err error) {
		switch name {
		case "sealed":
			_, err = second.Pause(ctx, "orders", true, time.Time{}) // after the rest of the migration
		case "made":
			err = crash
		}
		return err
	})
	require.ErrorIs(t, err1(e.Get(ctx, []engine.Key{key("1")})), crash)
	for slot := range 2 {
		meta := strings.TrimSuffix(second.SlotKey("orders", slot), "s") + "m"
		require.Equal(t, "1", server.client(t).HGet(ctx, meta, "paused").Val(), "slot %d is paused", slot)
	}
}

// A server has lost partitions, or a version before has sealed some and its change of the topic was lost. Nobody asks for
// their tasks.
func TestMaintenanceMendsSlotsThatRefuse(t *testing.T) {
	t.Parallel()
	server := startServer(t)
	e := openEngine(t, server, redis.Config{})
	lose := map[string]func(meta string) error{
		"gone":   func(meta string) error { return server.client(t).Del(ctx, meta).Err() },
		"sealed": func(meta string) error { return server.client(t).HSet(ctx, meta, "z", 1).Err() },
	}
	for name, do := range lose {
		withTopic(t, e, engine.Topic{Name: name, Slots: 4})
		for slot := range 3 {
			require.NoError(t, do(strings.TrimSuffix(e.SlotKey(name, slot), "s")+"m"))
		}
	}
	more := true
	for range 20 {
		if more {
			purged, err := e.Maintain(ctx)
			require.NoError(t, err)
			more = purged.More
		}
	}
	require.False(t, more, "nothing is left to do")
	for name := range lose {
		for i := range 20 {
			set(t, e, engine.Task{Topic: name, ID: fmt.Sprint(i)})
		}
		require.Len(t, leaseBatch(t, e, engine.Ask{Topic: name, Max: 100}).Leased, 20)
	}
}

// Each node asks for the topics at each heartbeat.
func TestTopicsThatOthersDropAreForgotten(t *testing.T) {
	t.Parallel()
	e := openEngine(t, sharedServer(t), redis.Config{})
	other := openEngine(t, sharedServer(t), redis.Config{Prefix: e.Prefix()})
	for _, name := range []string{"stays", "goes"} {
		withTopic(t, other, engine.Topic{Name: name})
		set(t, e, engine.Task{Topic: name, ID: "1"})
		require.True(t, e.Knows(name))
	}
	require.NoError(t, other.DropTopic(ctx, "goes"))
	require.Equal(t, []string{"stays"}, topicNames(t, e))
	require.False(t, e.Knows("goes"))
	require.True(t, e.Knows("stays"))
}
