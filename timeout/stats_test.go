package timeout_test

import (
	"context"
	"errors"
	"reflect"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/heartwheel-go/heartwheel/timeout"
)

// Each number has a value of its own, so that no sum can take the place of another.
func TestAddAddsEachFigure(t *testing.T) {
	one := timeout.Stats{Topic: "t", Slots: []int{0, 2}}
	one.Late.Observe(time.Second)
	one.Took.Observe(time.Minute)
	sum := one
	other := timeout.Stats{Topic: "t", Slots: []int{1}}
	other.Late.Observe(time.Hour)
	fields := reflect.ValueOf(&other).Elem()
	for i := range fields.NumField() {
		switch f := fields.Field(i); {
		case f.CanInt():
			f.SetInt(int64(i + 100))
		case f.CanUint():
			f.SetUint(uint64(i + 100))
		}
	}
	sum.Add(other)
	sum.Add(other)
	for i := range fields.NumField() {
		switch f := reflect.ValueOf(sum).Field(i); {
		case f.CanInt():
			require.EqualValues(t, 2*(i+100), f.Int(), fields.Type().Field(i).Name)
		case f.CanUint():
			require.EqualValues(t, 2*(i+100), f.Uint(), fields.Type().Field(i).Name)
		}
	}
	require.Equal(t, []int{0, 2, 1, 1}, sum.Slots)
	require.Equal(t, []int{0, 2}, one.Slots)
	require.EqualValues(t, 3, sum.Late.Count)
	require.Equal(t, time.Hour, sum.Late.Max)
	require.EqualValues(t, 1, sum.Took.Count)
}

// A task may die at a node that has not leased it.
func TestTheNodeThatIsToldOfADeathCountsIt(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		r := pullRig(t, timeout.Topic{Retries: -1})
		other := rigOn(t, r.engine, timeout.Config{Node: "other"})
		pass(10 * time.Second)
		r.set("dies", 0)
		r.set("lives", 0)
		for _, one := range r.pull(2, time.Second) {
			var failure error
			if one.ID == "dies" {
				failure = errors.New("broken")
			}
			require.True(t, other.tell(one.Token, failure))
			require.False(t, other.tell(one.Token, failure))
		}
		require.EqualValues(t, 1, other.stats().Dead)
		require.Zero(t, other.stats().GivenUp)
		require.Zero(t, other.stats().Pulled)
		require.Zero(t, r.stats().Dead)
	})
}

func TestTheFiguresOfATopicThatWasPulledAndHasAHandlerAreOne(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		r := pullRig(t, timeout.Topic{})
		r.set("pulled", 0)
		require.True(t, r.tell(r.pull(1, time.Second)[0].Token, nil))
		_, err := r.SetTopic(t.Context(), timeout.Topic{Name: "orders"})
		require.NoError(t, err)
		require.NoError(t, r.Handle("orders", func(context.Context, timeout.Task) error { return nil }))
		r.set("handled", 0)
		pass(10 * time.Second)
		s := r.stats()
		require.EqualValues(t, 1, s.Pulled)
		require.EqualValues(t, 1, s.Done)
		require.EqualValues(t, 2, s.Late.Count)
		require.NotEmpty(t, s.Slots)
	})
}

// A node that serves a topic leases a task before it knows of the handler, and hands it back: no attempt.
func TestATaskThatIsHandedBackIsLateOnce(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		r, _ := withTargets(t, timeout.Topic{})
		_, err := r.SetTopic(t.Context(), timeout.Topic{Name: "orders"})
		require.NoError(t, err)
		pass(10 * time.Second)
		r.set("1", 0)
		pass(10 * time.Second)
		require.NotZero(t, r.stats().Postponed)
		require.Zero(t, r.stats().Late.Count)
		require.NoError(t, r.Handle("orders", func(context.Context, timeout.Task) error { return nil }))
		pass(time.Minute)
		require.EqualValues(t, 1, r.stats().Done)
		require.EqualValues(t, 1, r.stats().Late.Count)
		require.GreaterOrEqual(t, r.stats().Late.Max, 10*time.Second)
	})
}
