package enginetest

import (
	"fmt"
	"strings"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/heartwheel-go/heartwheel/timeout"
)

var topics = []test{
	{"a topic has its defaults and is kept whole", func(s *suite) {
		require.Equal(s, timeout.Topic{Name: s.topic}.WithDefaults(), s.make(timeout.Topic{}))
		full := timeout.Topic{
			Name: s.topic, Slots: 16, Retries: 3, Backoff: 2 * time.Second, BackoffMax: time.Minute, Lease: time.Second,
			Timeout: time.Hour, Concurrency: 7, Rate: 2.5, Retain: time.Hour, Paused: true,
			Callback: &timeout.Callback{Kind: "http", Target: "https://example.org/ü", Method: "PUT", Header: map[string]string{"A": "b"}, Timeout: time.Second},
		}
		require.Equal(s, full, s.make(full))
		all, err := s.engine.Topics(s.Context())
		require.NoError(s, err)
		require.Contains(s, all, full)
		for i := range all[1:] {
			require.Less(s, all[i].Name, all[i+1].Name)
		}
	}},
	{"a topic that is there stays where only a new one is wanted", func(s *suite) {
		s.make(timeout.Topic{Retries: 3})
		kept, err := s.engine.SetTopic(s.Context(), timeout.Topic{Name: s.topic, Retries: 5, Slots: 2}, true)
		require.NoError(s, err)
		require.Equal(s, 3, kept.Retries)
		require.Equal(s, timeout.DefaultSlots, kept.Slots)
	}},
	{"slots can grow while tasks wait and run and not shrink", func(s *suite) {
		s.makeAnew(timeout.Topic{Slots: 2})
		for i := range 60 {
			s.setTask(timeout.Task{ID: fmt.Sprint(i), After: map[bool]time.Duration{true: time.Hour}[i >= 40]})
		}
		running := s.lease(20, longLease)
		require.Equal(s, 8, s.make(timeout.Topic{Slots: 8}).Slots)
		require.Equal(s, 8, s.make(timeout.Topic{}).Slots)
		_, err := s.engine.SetTopic(s.Context(), timeout.Topic{Name: s.topic, Slots: 4}, false)
		require.ErrorIs(s, err, timeout.ErrConflict)

		for _, leased := range running[:10] {
			require.True(s, s.settle(leased.Token, timeout.Done, nil))
		}
		for _, leased := range running[10:] {
			require.True(s, s.extend(leased.Token, longLease))
		}
		require.Len(s, s.lease(20, longLease), 20)
		require.Equal(s, timeout.Pending, s.move("59", 0).Was)
		require.Equal(s, timeout.Pending, s.remove("58").Was)
		require.Equal(s, "59", s.lease(1, longLease)[0].ID)
		require.EqualValues(s, 18, s.count().Pending)
		require.EqualValues(s, 31, s.count().Running)
	}},
	{"a topic that is dropped is gone with its tasks", func(s *suite) {
		s.set("1", 0)
		token := s.lease(1, longLease)[0].Token
		s.set("2", time.Hour)
		require.NoError(s, s.engine.DropTopic(s.Context(), s.topic))
		require.ErrorIs(s, s.engine.DropTopic(s.Context(), s.topic), timeout.ErrNotFound)
		_, err := s.engine.Expire(s.Context(), s.ask())
		require.ErrorIs(s, err, timeout.ErrNotFound)
		answers, err := s.engine.Set(s.Context(), []timeout.Task{{Topic: s.topic, ID: "1"}})
		require.NoError(s, err)
		require.ErrorIs(s, answers[0].Err, timeout.ErrNotFound)
		require.Equal(s, timeout.None, s.remove("2").Was)
		s.make(timeout.Topic{})
		require.Equal(s, timeout.Counts{}, s.count())
		require.Equal(s, timeout.None, s.get("2").State)
		s.set("1", 0)
		require.False(s, s.settle(token, timeout.Done, nil), "the number of before is void")
		require.False(s, s.extend(token, longLease))
		again := s.lease(1, longLease)[0]
		require.NotEqual(s, token, again.Token)
		require.False(s, s.settle(token, timeout.Done, nil))
	}},
	{"a paused topic leases nothing and settles", func(s *suite) {
		s.set("1", 0)
		token := s.lease(1, longLease)[0].Token
		s.set("2", 0)
		s.make(timeout.Topic{Paused: true})
		s.none()
		require.True(s, s.extend(token, longLease))
		require.True(s, s.settle(token, timeout.Done, nil))
		s.make(timeout.Topic{})
		require.Equal(s, "2", s.lease(1, longLease)[0].ID)
	}},
	{"what is asked of a topic that is not there is nothing", func(s *suite) {
		nowhere := timeout.Key{Topic: "no-such-topic", ID: "1"}
		for _, call := range []func() ([]timeout.Answer, error){
			func() ([]timeout.Answer, error) {
				return s.engine.Move(s.Context(), []timeout.Move{{Key: nowhere}})
			},
			func() ([]timeout.Answer, error) { return s.engine.Remove(s.Context(), []timeout.Key{nowhere}) },
			func() ([]timeout.Answer, error) { return s.engine.Replay(s.Context(), []timeout.Key{nowhere}) },
		} {
			answers, err := call()
			require.NoError(s, err)
			require.Equal(s, []timeout.Answer{{}}, answers)
		}
		tasks, err := s.engine.Get(s.Context(), []timeout.Key{nowhere})
		require.NoError(s, err)
		require.Equal(s, timeout.None, tasks[0].State)
		page, err := s.engine.List(s.Context(), timeout.Query{Topic: nowhere.Topic, State: timeout.Pending})
		require.NoError(s, err)
		require.Empty(s, page.Tasks)
	}},
	{"all names and ids that are allowed are kept apart", func(s *suite) {
		for _, id := range []string{"a", "A", "a ", " a", "a/b", "a:b", "{a}", "{a}b", "ü", "u\u0308", "%", "_", "'", `"`, `\`, "*", strings.Repeat("é", 127)} {
			require.Equal(s, timeout.None, s.setTask(timeout.Task{ID: id, After: time.Hour, Payload: []byte(id)}).Was, id)
			require.Equal(s, id, string(s.get(id).Payload))
		}
		require.EqualValues(s, 17, s.count().Pending)
	}},
}
