package enginetest

import (
	"context"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/heartwheel-go/heartwheel/timeout"
)

var states = []timeout.State{timeout.None, timeout.Pending, timeout.Running, timeout.Done, timeout.Dead, timeout.Removed}

func lives(state timeout.State) bool {
	return state == timeout.Pending || state == timeout.Running || state == timeout.Dead
}

var verbs = []test{
	{"a task is kept as it was set", func(s *suite) {
		payload := make([]byte, 1<<20)
		for i := range payload {
			payload[i] = byte(rand.Uint32())
		}
		call := &timeout.Callback{Kind: "http", Target: "https://example.org/ü", Method: "PUT", Header: map[string]string{"A": "b", "C": ""}, Timeout: time.Second}
		due := time.Now().Add(time.Hour).Truncate(time.Millisecond).Add(time.Microsecond)
		answer := s.setTask(timeout.Task{ID: "1", Payload: payload, Due: due, Callback: call})
		require.Equal(s, due.Truncate(time.Millisecond).Add(time.Millisecond).UnixMilli(), answer.Due.UnixMilli(), "rounded up")
		task := s.get("1")
		require.Equal(s, payload, task.Payload)
		require.Equal(s, call, task.Callback)
		require.Equal(s, timeout.Pending, task.State)
		require.Equal(s, answer.Version, task.Version)
		require.Equal(s, answer.Due.UnixMilli(), task.Due.UnixMilli())
		require.Equal(s, answer.Due.UnixMilli(), task.Until.UnixMilli())
		require.Zero(s, task.Attempts)
		require.Empty(s, task.Error)
	}},
	{"each verb answers what was there", func(s *suite) {
		s.make(timeout.Topic{Retain: time.Hour})
		for _, was := range states {
			id := func(verb string) string { return verb + "-" + was.String() }
			stale := s.bring(id("set"), was)
			before := s.get(id("set"))
			require.Equal(s, was, before.State)
			answer := s.set(id("set"), time.Hour)
			require.Equal(s, was, answer.Was)
			require.Greater(s, answer.Version, before.Version)
			task := s.get(id("set"))
			require.Equal(s, timeout.Pending, task.State)
			require.Zero(s, task.Attempts)
			require.Empty(s, task.Error)
			if was == timeout.Running {
				require.False(s, s.extend(stale, longLease))
				require.False(s, s.settle(stale, timeout.Done, nil))
				require.False(s, s.settle(stale, timeout.Pending, nil))
				require.False(s, s.settle(stale, timeout.Dead, nil))
				require.Equal(s, timeout.Pending, s.get(id("set")).State)
			}

			s.bring(id("absent"), was)
			before = s.get(id("absent"))
			answer = s.setTask(timeout.Task{ID: id("absent"), After: 2 * time.Hour, IfAbsent: true})
			require.Equal(s, was, answer.Was)
			if lives(was) {
				require.Equal(s, before.Version, answer.Version)
				require.Equal(s, before.Due.UnixMilli(), answer.Due.UnixMilli())
				require.Equal(s, was, s.get(id("absent")).State)
			} else {
				require.Equal(s, timeout.Pending, s.get(id("absent")).State)
			}

			stale = s.bring(id("move"), was)
			before = s.get(id("move"))
			answer = s.move(id("move"), 3*time.Hour)
			require.Equal(s, was, answer.Was)
			after := s.get(id("move"))
			if was == timeout.Pending {
				require.Greater(s, answer.Version, before.Version)
				require.Greater(s, after.Due, before.Due)
				require.Equal(s, after.Due.UnixMilli(), answer.Due.UnixMilli())
			} else {
				require.Equal(s, before.Version, after.Version)
				require.Equal(s, was, after.State)
			}
			if was == timeout.Running {
				require.True(s, s.settle(stale, timeout.Done, nil))
			}

			stale = s.bring(id("remove"), was)
			answer = s.remove(id("remove"))
			require.Equal(s, was, answer.Was)
			if lives(was) {
				require.Zero(s, answer.Version)
			}
			switch after := s.get(id("remove")).State; {
			case lives(was):
				require.Equal(s, timeout.Removed, after)
			default:
				require.Equal(s, was, after)
			}
			if was == timeout.Running {
				require.False(s, s.extend(stale, longLease))
				require.False(s, s.settle(stale, timeout.Done, nil))
				require.Equal(s, timeout.Removed, s.get(id("remove")).State)
			}

			s.bring(id("replay"), was)
			before = s.get(id("replay"))
			answer = s.replay(id("replay"))
			require.Equal(s, was, answer.Was)
			after = s.get(id("replay"))
			if was == timeout.Dead {
				require.Equal(s, timeout.Pending, after.State)
				require.GreaterOrEqual(s, answer.Version, before.Version)
				require.Zero(s, after.Attempts)
				leased := s.lease(1, longLease)[0]
				require.Equal(s, id("replay"), leased.ID)
				require.Equal(s, 1, leased.Attempts)
			} else {
				require.Equal(s, was, after.State)
			}
		}
	}},
	{"what has ended is not kept without Retain", func(s *suite) {
		for _, state := range []timeout.State{timeout.Done, timeout.Removed} {
			s.bring(state.String(), state)
			require.Equal(s, timeout.None, s.get(state.String()).State)
		}
		s.bring("dead", timeout.Dead)
		require.Equal(s, "last", s.get("dead").Error)
		require.EqualValues(s, timeout.Counts{Dead: 1}, s.count())
		require.Equal(s, timeout.Dead, s.remove("dead").Was)
		require.Equal(s, timeout.Counts{}, s.count())
	}},
	{"upkeep deletes what was kept for its time", func(s *suite) {
		s.make(timeout.Topic{Retain: 300 * time.Millisecond})
		s.bring("done", timeout.Done)
		s.bring("removed", timeout.Removed)
		s.bring("dead", timeout.Dead)
		s.bring("pending", timeout.Pending)
		require.EqualValues(s, timeout.Counts{Done: 1, Removed: 1, Dead: 1, Pending: 1}, s.count())
		s.eventually(func() bool {
			_, err := s.engine.Upkeep(s.Context(), 0)
			require.NoError(s, err)
			return s.get("done").State == timeout.None && s.get("removed").State == timeout.None
		})
		require.EqualValues(s, timeout.Counts{Dead: 1, Pending: 1}, s.count())
	}},
	{"batches of none and of many", func(s *suite) {
		ctx := s.Context()
		answers, err := s.engine.Set(ctx, nil)
		require.NoError(s, err)
		require.Empty(s, answers)
		_, err = s.engine.Get(ctx, nil)
		require.NoError(s, err)
		const n = 3000
		var tasks []timeout.Task
		var keys []timeout.Key
		var moves []timeout.Move
		for i := range n {
			key := s.key(fmt.Sprint("task-", i))
			tasks = append(tasks, timeout.Task{Topic: key.Topic, ID: key.ID, After: time.Hour})
			keys = append(keys, key)
			moves = append(moves, timeout.Move{Key: key})
		}
		answers, err = s.engine.Set(ctx, tasks)
		require.NoError(s, err)
		for i, answer := range answers {
			require.NoError(s, answer.Err)
			require.Equal(s, timeout.None, answer.Was)
			if i%500 == 0 {
				require.Equal(s, answer.Version, s.get(keys[i].ID).Version)
			}
		}
		answers, err = s.engine.Move(ctx, moves[:n/2])
		require.NoError(s, err)
		require.Len(s, answers, n/2)
		answers, err = s.engine.Remove(ctx, keys[n/2:])
		require.NoError(s, err)
		require.Len(s, answers, n/2)
		for _, answer := range answers {
			require.Equal(s, timeout.Pending, answer.Was)
		}
		leased := s.lease(n/2, longLease)
		var tokens []timeout.Token
		var settle []timeout.Outcome
		seen := map[string]bool{}
		for _, l := range leased {
			seen[l.ID] = true
			tokens = append(tokens, l.Token)
			settle = append(settle, timeout.Outcome{Token: l.Token, As: timeout.Done})
		}
		require.Len(s, seen, n/2)
		held, err := s.engine.Extend(ctx, tokens, longLease)
		require.NoError(s, err)
		require.NotContains(s, held, false)
		require.NotContains(s, s.expire(timeout.Ask{Topic: s.topic, Settle: settle}).Settled, false)
		require.Equal(s, timeout.Counts{}, s.count())
	}},
	{"of a key that is there twice the last one stays", func(s *suite) {
		key := s.key("1")
		answers, err := s.engine.Set(s.Context(), []timeout.Task{
			{Topic: key.Topic, ID: key.ID, After: time.Hour, Payload: []byte("a")},
			{Topic: key.Topic, ID: "2", After: time.Hour},
			{Topic: key.Topic, ID: key.ID, After: time.Hour, Payload: []byte("b")},
			{Topic: key.Topic, ID: key.ID, After: time.Hour, Payload: []byte("c"), IfAbsent: true},
		})
		require.NoError(s, err)
		require.Equal(s, timeout.None, answers[0].Was)
		require.Equal(s, timeout.Pending, answers[2].Was)
		require.Equal(s, timeout.Pending, answers[3].Was)
		require.Greater(s, answers[2].Version, answers[0].Version)
		require.Equal(s, "b", string(s.get("1").Payload))
		require.Equal(s, answers[2].Version, s.get("1").Version)
		removed, err := s.engine.Remove(s.Context(), []timeout.Key{key, key})
		require.NoError(s, err)
		require.Equal(s, timeout.Pending, removed[0].Was)
		require.Equal(s, timeout.None, removed[1].Was)
	}},
	{"tasks of several topics go together", func(s *suite) {
		other := timeout.Topic{Name: s.topic + "-b"}
		_, err := s.engine.SetTopic(s.Context(), other, true)
		require.NoError(s, err)
		answers, err := s.engine.Set(s.Context(), []timeout.Task{
			{Topic: s.topic, ID: "1"}, {Topic: other.Name, ID: "1"}, {Topic: "no-such-topic", ID: "1"}, {Topic: s.topic, ID: "2"},
		})
		require.NoError(s, err)
		require.NoError(s, answers[0].Err)
		require.NoError(s, answers[1].Err)
		require.ErrorIs(s, answers[2].Err, timeout.ErrNotFound)
		require.NoError(s, answers[3].Err)
		require.Len(s, s.lease(2, longLease), 2)
		s.none()
		require.NoError(s, s.engine.DropTopic(s.Context(), other.Name))
	}},
	{"versions never come again", func(s *suite) {
		last := int64(0)
		for range 20 {
			version := s.set("1", 0).Version
			require.Greater(s, version, last)
			last = version
			require.True(s, s.settle(s.lease(1, longLease)[0].Token, timeout.Done, nil))
		}
	}},
	{"a context that has ended ends a call", func(s *suite) {
		ctx, cancel := context.WithCancel(s.Context())
		cancel()
		_, err := s.engine.Set(ctx, []timeout.Task{{Topic: s.topic, ID: "1"}})
		require.Error(s, err)
		_, err = s.engine.Expire(ctx, s.ask())
		require.Error(s, err)
	}},
}
