package sharded_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/heartwheel-go/heartwheel/timeout/engine"
	"github.com/heartwheel-go/heartwheel/timeout/memory"
	"github.com/heartwheel-go/heartwheel/timeout/sharded"
)

func several(t *testing.T, n int) []engine.Engine {
	var shards []engine.Engine
	for range n {
		shards = append(shards, inMemory(t))
	}
	return shards
}

// refused expects a refusal of the shards, with these words in the error.
func refused(t *testing.T, shards []engine.Engine, words ...string) {
	t.Helper()
	_, err := sharded.New(t.Context(), shards, calm)
	require.ErrorIs(t, err, engine.ErrConflict)
	for _, word := range words {
		require.ErrorContains(t, err, word)
	}
}

func TestAnotherListOfShardsIsRefused(t *testing.T) {
	s := several(t, 3)
	e := over(t, s...)
	_, err := e.SetTopic(t.Context(), engine.Topic{Name: "orders"}, true)
	require.NoError(t, err)
	over(t, s...) // the same again

	refused(t, []engine.Engine{s[1], s[0], s[2]}, "shard 1 of 3", "made as shard 2 of 3")
	refused(t, s[:2], "made as shard 1 of 3")
	refused(t, append(s, inMemory(t)), "of 4", "made as shard 1 of 3")
	refused(t, []engine.Engine{s[0], s[1], inMemory(t)}, "shard 3 of 3", "no marker")
	refused(t, []engine.Engine{s[0], s[1], s[1]}, "shard 3 of 3", "made as shard 2 of 3")

	others := several(t, 3)
	over(t, others...)
	refused(t, []engine.Engine{s[0], others[1], s[2]}, "shards 1 and 2 of 3", "do not belong together")

	alone := inMemory(t)
	require.NoError(t, sharded.Alone(t.Context(), alone))
	_, err = alone.SetTopic(t.Context(), engine.Topic{Name: "old"}, true)
	require.NoError(t, err)
	refused(t, []engine.Engine{inMemory(t), alone}, "shard 2 of 2", `"old"`)
	require.NoError(t, sharded.Alone(t.Context(), alone), "nothing has been marked")

	err = sharded.Alone(t.Context(), s[1])
	require.ErrorIs(t, err, engine.ErrConflict)
	require.ErrorContains(t, err, "shard 2 of 3")
	over(t, s...) // still the same
}

func TestOneShardIsAnEngineAsEver(t *testing.T) {
	alone := inMemory(t)
	_, err := alone.SetTopic(t.Context(), engine.Topic{Name: "old"}, true)
	require.NoError(t, err)
	over(t, alone)
	require.NoError(t, sharded.Alone(t.Context(), alone))
}

func TestTheMarksAreNobodysTasks(t *testing.T) {
	s := several(t, 2)
	e := over(t, s...)
	topics, err := e.Topics(t.Context())
	require.NoError(t, err)
	require.Empty(t, topics)
	_, err = e.SetTopic(t.Context(), engine.Topic{Name: engine.Reserved}, false)
	require.ErrorIs(t, err, engine.ErrArgument)
	require.ErrorIs(t, e.DropTopic(t.Context(), engine.Reserved), engine.ErrNotFound)
	page, err := e.List(t.Context(), engine.Query{Topic: engine.Reserved, State: engine.Pending})
	require.NoError(t, err)
	require.Empty(t, page.Tasks)
	_, err = e.Lease(t.Context(), engine.Ask{Topic: engine.Reserved, Max: 10, Lease: time.Hour})
	require.ErrorIs(t, err, engine.ErrNotFound)
	for _, id := range []string{"place", "founded"} {
		key := engine.Key{Topic: engine.Reserved, ID: id}
		_, err := e.Remove(t.Context(), []engine.Removal{{Key: key}})
		require.NoError(t, err)
		_, err = e.Move(t.Context(), []engine.Move{{Key: key}})
		require.NoError(t, err)
		answers, err := e.Set(t.Context(), []engine.Task{{Topic: key.Topic, ID: key.ID}})
		require.NoError(t, err)
		require.ErrorIs(t, answers[0].Err, engine.ErrNotFound)
	}
	over(t, s...)
}

// crashes ends a process at one of its writes.
type crashes struct {
	engine.Engine
	left *atomic.Int64
}

func (c crashes) Set(ctx context.Context, tasks []engine.Task) ([]engine.Answer, error) {
	if c.left.Add(-1) < 0 {
		return nil, errors.New("crashed")
	}
	return c.Engine.Set(ctx, tasks)
}

func TestWhoeverComesNextGoesOnWithMarking(t *testing.T) {
	for writes := range 6 {
		t.Run(fmt.Sprintf("writes=%d", writes), func(t *testing.T) {
			s := several(t, 3)
			left := new(atomic.Int64)
			left.Store(int64(writes))
			_, err := sharded.New(t.Context(), []engine.Engine{crashes{s[0], left}, crashes{s[1], left}, crashes{s[2], left}}, calm)
			require.ErrorContains(t, err, "crashed")
			over(t, s...)
			refused(t, []engine.Engine{s[1], s[0], s[2]}, "made as")
		})
	}
}

func TestSeveralMayBeginAtTheSameTime(t *testing.T) {
	for range 20 {
		s := several(t, 3)
		var beginning sync.WaitGroup
		engines, errs := make([]engine.Engine, 4), make([]error, 4)
		for i := range engines {
			beginning.Go(func() { engines[i], errs[i] = sharded.New(t.Context(), s, calm) })
		}
		beginning.Wait()
		for i, err := range errs {
			require.NoError(t, err)
			require.NoError(t, engines[i].Close())
		}
	}
}

func TestABadConfigurationIsRefusedWithItsLimit(t *testing.T) {
	for _, refused := range []struct {
		shards []engine.Engine
		cfg    sharded.Config
		word   string
	}{
		{nil, sharded.Config{}, "0 shards, must be 1 to 1024"},
		{[]engine.Engine{nil}, sharded.Config{}, "shard 0 is nil"},
		{several(t, 1), sharded.Config{CallTimeout: time.Microsecond}, "CallTimeout 1µs, must be at least 10ms"},
	} {
		_, err := sharded.New(t.Context(), refused.shards, refused.cfg)
		require.ErrorIs(t, err, engine.ErrArgument)
		require.ErrorContains(t, err, refused.word)
	}
}

// A process can begin without some shards, and takes them in when they answer. The first time all
// must answer.
func TestAShardIsOpenedWhenItCanBe(t *testing.T) {
	var away atomic.Int32
	var openers []func(context.Context) (*memory.Engine, error)
	var shards []engine.Engine
	for index := range 3 {
		shard, err := memory.New(memory.Config{})
		require.NoError(t, err)
		shards = append(shards, shard)
		openers = append(openers, func(context.Context) (*memory.Engine, error) {
			if int(away.Load()) == index {
				return nil, errRefused
			}
			return shard, nil
		})
	}
	away.Store(2)
	_, err := sharded.Open(t.Context(), openers, calm)
	require.ErrorIs(t, err, errRefused)
	require.ErrorContains(t, err, "the first time all shards must answer")
	require.ErrorContains(t, err, "shard 3 of 3")
	for index, shard := range shards { // the opened ones are closed, for good in memory
		if index != 2 {
			_, err = shard.Topics(t.Context())
			require.ErrorIs(t, err, engine.ErrClosed)
		}
	}
	require.NoError(t, shards[2].Close())
}

func TestAShardIsTakenInWhenItAnswers(t *testing.T) {
	var shards []engine.Engine
	var stubs []*shaky
	for range 3 {
		stubs = append(stubs, &shaky{Engine: inMemory(t)})
		shards = append(shards, stubs[len(stubs)-1])
	}
	over(t, shards...)
	for index, stub := range stubs {
		stub.is.Store(refusing)
		e := over(t, shards...)
		key := []engine.Key{{Topic: "orders", ID: ids("orders", 3, 1)[index][0]}}
		_, err := e.Get(t.Context(), key)
		require.ErrorIs(t, err, errRefused)
		stub.is.Store(well)
		require.Eventually(t, func() bool { _, err := e.Get(t.Context(), key); return err == nil }, time.Minute, 10*time.Millisecond)
	}
}
