package enginetest

import (
	"fmt"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/heartwheel-go/heartwheel/timeout"
)

func (s *suite) list(query timeout.Query) timeout.Page {
	s.Helper()
	query.Topic = s.topic
	page, err := s.engine.List(s.Context(), query)
	require.NoError(s, err)
	return page
}

var lists = []test{
	{"a list has what is in a state and how it got there", func(s *suite) {
		s.make(timeout.Topic{Retain: time.Hour})
		for _, state := range states[1:] {
			s.bring(state.String(), state)
		}
		for _, state := range states[1:] {
			page := s.list(timeout.Query{State: state})
			require.Len(s, page.Tasks, 1, state)
			require.Empty(s, page.Next)
			require.Equal(s, s.get(state.String()), page.Tasks[0])
		}
	}},
	{"pages have each task once whatever happens to others", func(s *suite) {
		for i := range 100 {
			s.set(fmt.Sprintf("stays-%02d", i), time.Hour+time.Duration(i%7)*time.Minute)
			s.set(fmt.Sprintf("goes-%02d", i), time.Hour+time.Duration(i%7)*time.Minute)
		}
		seen := map[string]int{}
		query := timeout.Query{State: timeout.Pending, Limit: 9}
		for pages := 0; ; pages++ {
			require.Less(s, pages, 100)
			page := s.list(query)
			require.LessOrEqual(s, len(page.Tasks), 9)
			for _, task := range page.Tasks {
				seen[task.ID]++
			}
			for i := range 4 {
				s.remove(fmt.Sprintf("goes-%02d", (4*pages+i)%100))
			}
			s.set(fmt.Sprintf("new-%d", pages), time.Hour)
			if page.Next == "" {
				break
			}
			query.Cursor = page.Next
		}
		for i := range 100 {
			require.Equal(s, 1, seen[fmt.Sprintf("stays-%02d", i)])
		}
	}},
	{"garbage for a cursor is refused", func(s *suite) {
		for _, cursor := range []string{"x", "!", "AAAA", "////", "MTIz"} {
			_, err := s.engine.List(s.Context(), timeout.Query{Topic: s.topic, State: timeout.Pending, Cursor: cursor})
			require.ErrorIs(s, err, timeout.ErrArgument, cursor)
		}
	}},
	{"counts tell what is due and for how long", func(s *suite) {
		s.set("1", time.Hour)
		s.setTask(timeout.Task{ID: "2", Due: time.Now().Add(-time.Hour)})
		s.setTask(timeout.Task{ID: "3", Due: time.Now().Add(-time.Minute)})
		s.eventually(func() bool {
			counts := s.count()
			return counts.Pending == 3 && counts.Due == 2
		})
		require.InDelta(s, 3600, s.count().Lag.Seconds(), 60)
		s.lease(2, longLease)
		s.eventually(func() bool {
			counts := s.count()
			return counts.Pending == 1 && counts.Due == 0 && counts.Running == 2 && counts.Lag == 0
		})
	}},
}

var logs = []test{
	{"the log has the attempts that have ended", func(s *suite) {
		log, ok := s.engine.(timeout.Log)
		if !ok {
			return // such an engine has none
		}
		s.make(timeout.Topic{Retain: time.Hour})
		answer := s.set("1", 0)
		started := time.Now().Add(-time.Second).Truncate(time.Millisecond)
		for _, as := range []timeout.State{timeout.Pending, timeout.Pending, timeout.Done} {
			require.True(s, s.settle(s.lease(1, longLease)[0].Token, as, func(o *timeout.Outcome) {
				o.Started, o.Took = started, 3*time.Millisecond
				if as != timeout.Done {
					o.Error = "no"
				}
			}))
		}
		got, err := log.Executions(s.Context(), s.key("1"), 2)
		require.NoError(s, err)
		require.Len(s, got, 2)
		require.Equal(s, timeout.Done, got[0].As)
		require.Equal(s, 3, got[0].Attempt)
		require.Equal(s, timeout.Pending, got[1].As)
		require.Equal(s, 2, got[1].Attempt)
		require.Equal(s, "no", got[1].Error)
		require.Equal(s, "tester", got[1].Node)
		require.Equal(s, answer.Version, got[1].Version)
		require.Equal(s, started.UnixMilli(), got[1].Started.UnixMilli())
		require.Equal(s, 3*time.Millisecond, got[1].Took)
		none, err := log.Executions(s.Context(), s.key("2"), 10)
		require.NoError(s, err)
		require.Empty(s, none)
	}},
}
