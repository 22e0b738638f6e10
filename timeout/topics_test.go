package timeout_test

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/heartwheel-go/heartwheel/timeout"
	"github.com/heartwheel-go/heartwheel/timeout/engine"
	"github.com/heartwheel-go/heartwheel/timeout/memory"
)

func of(topic, id string) timeout.Task {
	return timeout.Task{Topic: topic, ID: id, After: time.Hour}
}

func many(prefix string, n int) (tasks []timeout.Task) {
	for i := range n {
		tasks = append(tasks, of(fmt.Sprint(prefix, i), "1"))
	}
	return tasks
}

func TestTasksMakeNoMoreTopicsThanThereMayBe(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		r := newRig(t, timeout.Config{MaxTopics: 3})
		answers, err := r.SetAll(t.Context(), append(many("t", 4), of("t0", "2")))
		require.NoError(t, err)
		refused := answers[3].Err
		require.ErrorIs(t, refused, timeout.ErrFull)
		require.ErrorContains(t, refused, `topic "t3" there would be 4 topics, must be at most 3 (MaxTopics)`)
		for _, i := range []int{0, 1, 2, 4} {
			require.NoError(t, answers[i].Err, "the others are set")
			require.NotZero(t, answers[i].Version)
		}
		topics, err := r.Topics(t.Context())
		require.NoError(t, err)
		require.Len(t, topics, 3)
		_, err = r.Set(t.Context(), of("t3", "1"))
		require.ErrorIs(t, err, timeout.ErrFull)
		_, err = r.Set(t.Context(), of("t0", "3"))
		require.NoError(t, err, "those that are there take tasks")

		_, err = r.SetTopic(t.Context(), timeout.Topic{Name: "t3"})
		require.NoError(t, err, "who may change topics is trusted")
		require.NoError(t, r.Handle("t4", func(context.Context, timeout.Task) error { return nil }))
		pass(time.Second)
		other, err := timeout.New(r.engine, timeout.Config{MaxTopics: 3})
		require.NoError(t, err)
		_, err = other.SetAll(t.Context(), append(many("t", 5), of("t4", "2")))
		require.NoError(t, err, "all are there, though another node has made them")
		require.NoError(t, other.Close())
	})
}

func TestTasksMakeNoTopicsWhereTheyMayNot(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		r := newRig(t, timeout.Config{MaxTopics: -1})
		_, err := r.Set(t.Context(), of("orders", "1"))
		require.ErrorIs(t, err, timeout.ErrNotFound)
		require.ErrorContains(t, err, `topic "orders", and tasks make none (MaxTopics -1)`)
		answers, err := r.SetAll(t.Context(), []timeout.Task{of("orders", "1"), of("mails", "1")})
		require.NoError(t, err)
		require.ErrorIs(t, answers[0].Err, timeout.ErrNotFound)
		require.ErrorContains(t, answers[1].Err, `topic "mails", and tasks make none (MaxTopics -1)`)
		_, err = r.SetTopic(t.Context(), timeout.Topic{Name: "orders"})
		require.NoError(t, err)
		_, err = r.Set(t.Context(), of("orders", "1"))
		require.NoError(t, err)

		// Another node drops the topic, and this one does not know it yet. The topic is not made
		// anew, and the batch's tasks of other topics are set.
		_, err = r.SetTopic(t.Context(), timeout.Topic{Name: "mails"})
		require.NoError(t, err)
		synctest.Wait() // until it has looked at what there is
		require.NoError(t, r.engine.DropTopic(t.Context(), "orders"))
		answers, err = r.SetAll(t.Context(), []timeout.Task{of("orders", "2"), of("mails", "1"), of("orders", "3")})
		require.NoError(t, err)
		require.ErrorIs(t, answers[0].Err, timeout.ErrNotFound)
		require.NoError(t, answers[1].Err)
		require.ErrorIs(t, answers[2].Err, timeout.ErrNotFound)
		topics, err := r.Topics(t.Context())
		require.NoError(t, err)
		require.Len(t, topics, 1)
	})
}

// slowTopics counts the reads of all topics. A read takes a while.
type slowTopics struct {
	engine.Engine
	reads atomic.Int64
}

func (e *slowTopics) Topics(ctx context.Context) ([]timeout.Topic, error) {
	e.reads.Add(1)
	time.Sleep(10 * time.Millisecond)
	return e.Engine.Topics(ctx)
}

func (e *slowTopics) SetTopic(ctx context.Context, topic timeout.Topic, onlyNew bool, was ...timeout.Topic) (timeout.Topic, error) {
	time.Sleep(10 * time.Millisecond)
	return e.Engine.SetTopic(ctx, topic, onlyNew, was...)
}

// The center looks at many new topics together, made in a batch or one by one: a look for each would
// take a time quadratic in their number.
func TestManyNewTopicsAreLookedAtTogether(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		inMemory, err := memory.New(memory.Config{})
		require.NoError(t, err)
		defer func() { require.NoError(t, inMemory.Close()) }()
		engine := &slowTopics{Engine: inMemory}
		r := rigOn(t, engine, timeout.Config{TTL: time.Hour})
		pass(time.Second)
		before := engine.reads.Load()
		_, err = r.SetAll(t.Context(), many("batch", 200))
		require.NoError(t, err)
		pass(time.Second)
		require.LessOrEqual(t, engine.reads.Load()-before, int64(3), "of a batch")

		before, began := engine.reads.Load(), time.Now()
		for i := range 100 {
			_, err = r.SetTopic(t.Context(), timeout.Topic{Name: fmt.Sprint("single", i)})
			require.NoError(t, err)
		}
		pass(time.Second)
		require.LessOrEqual(t, engine.reads.Load()-before, int64(time.Since(began)/(50*time.Millisecond)), "one by one")
		require.NoError(t, r.stop())
	})
}

// lateTopics reads late, and answers later than it reads.
type lateTopics struct {
	engine.Engine
	read, answer atomic.Int64 // how long each takes
}

func (e *lateTopics) Topics(ctx context.Context) ([]timeout.Topic, error) {
	time.Sleep(time.Duration(e.read.Load()))
	topics, err := e.Engine.Topics(ctx)
	time.Sleep(time.Duration(e.answer.Load()))
	return topics, err
}

// A node changes a topic while it reads them all. It remembers the change when the old answer comes.
func TestAnOldAnswerUndoesNoChangeOfATopic(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		inMemory, err := memory.New(memory.Config{})
		require.NoError(t, err)
		defer func() { require.NoError(t, inMemory.Close()) }()
		engine := &lateTopics{Engine: inMemory}
		r := rigOn(t, engine, timeout.Config{TTL: 30 * time.Second})
		require.NoError(t, r.Handle("orders", func(context.Context, timeout.Task) error { return errors.New("no") }))
		_, err = r.SetTopic(t.Context(), timeout.Topic{Name: "orders", Retries: -1})
		require.NoError(t, err)
		pass(time.Second)
		engine.answer.Store(int64(3 * time.Second))
		pass(10 * time.Second) // a look has begun
		_, err = r.SetTopic(t.Context(), timeout.Topic{Name: "orders", Retries: 5})
		require.NoError(t, err)
		pass(3 * time.Second) // it has ended, and no other one
		r.set("1", 0)
		pass(time.Second)
		require.Equal(t, timeout.Pending, r.state("1").State, "a retry is to come")
		require.NoError(t, r.stop())
	})
}

func TestATopicDroppedDuringALookIsNotMadeAgain(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		inMemory, err := memory.New(memory.Config{})
		require.NoError(t, err)
		defer func() { require.NoError(t, inMemory.Close()) }()
		engine := &lateTopics{Engine: inMemory}
		r := rigOn(t, engine, timeout.Config{})
		handler := func(context.Context, timeout.Task) error { return nil }
		require.NoError(t, r.Handle("orders", handler))
		pass(time.Second)
		engine.read.Store(int64(2 * time.Second))
		require.NoError(t, r.Handle("mails", handler)) // so it looks
		pass(time.Second)
		require.NoError(t, r.Handle("orders", nil))
		require.NoError(t, r.DropTopic(t.Context(), "orders"))
		engine.read.Store(0)
		pass(time.Minute)
		topics, err := r.Topics(t.Context())
		require.NoError(t, err)
		require.Len(t, topics, 1)
		require.Equal(t, "mails", topics[0].Name)
		require.NoError(t, r.stop())
	})
}
