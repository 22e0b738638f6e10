package enginetest

import (
	"fmt"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/heartwheel-go/heartwheel/timeout"
)

var leases = []test{
	{"nothing is leased before its time", func(s *suite) {
		var tasks []timeout.Task
		for i := range 50 {
			tasks = append(tasks, timeout.Task{Topic: s.topic, ID: fmt.Sprint(i), After: time.Duration(i) * 10 * time.Millisecond})
		}
		answers, err := s.engine.Set(s.Context(), tasks)
		require.NoError(s, err)
		due := map[string]time.Time{}
		for i, answer := range answers {
			due[tasks[i].ID] = answer.Due
		}
		seen := 0
		s.eventually(func() bool {
			before, err := s.engine.Now(s.Context())
			require.NoError(s, err)
			batch := s.expire(s.ask())
			require.GreaterOrEqual(s, batch.Now.UnixMilli(), before.UnixMilli())
			for _, leased := range batch.Leased {
				require.Equal(s, due[leased.ID].UnixMilli(), leased.Due.UnixMilli())
				require.GreaterOrEqual(s, batch.Now.UnixMilli(), due[leased.ID].UnixMilli())
				seen++
			}
			return seen == 50
		})
	}},
	{"a task with a time that has passed is due at once", func(s *suite) {
		s.setTask(timeout.Task{ID: "1", Due: time.UnixMilli(1)})
		s.setTask(timeout.Task{ID: "2", Due: time.Now().Add(-24 * 365 * time.Hour)})
		require.Len(s, s.lease(2, longLease), 2)
	}},
	{"a time that is far off is kept", func(s *suite) {
		due := time.Date(9999, 12, 31, 23, 59, 59, 999e6, time.UTC)
		s.setTask(timeout.Task{ID: "1", Due: due})
		s.setTask(timeout.Task{ID: "2", After: 1<<63 - 1})
		require.Equal(s, due.UnixMilli(), s.get("1").Due.UnixMilli())
		require.Greater(s, s.get("2").Due.Year(), 2300)
		s.none()
	}},
	{"a lease has all of the task", func(s *suite) {
		answer := s.setTask(timeout.Task{ID: "1", Payload: []byte("p"), Callback: &timeout.Callback{Kind: "k", Target: "t"}})
		leased := s.lease(1, longLease)[0]
		require.Equal(s, "p", string(leased.Payload))
		require.Equal(s, &timeout.Callback{Kind: "k", Target: "t"}, leased.Callback)
		require.Equal(s, answer.Version, leased.Version)
		require.Equal(s, 1, leased.Attempts)
		require.Equal(s, "tester", leased.Node)
		require.False(s, leased.Again)
		now, err := s.engine.Now(s.Context())
		require.NoError(s, err)
		require.WithinDuration(s, now.Add(longLease), leased.Until, 5*time.Second)
		require.Equal(s, timeout.Running, s.get("1").State)
		s.none()
	}},
	{"what is done is gone and its token is void", func(s *suite) {
		token := s.bring("1", timeout.Running)
		require.True(s, s.settle(token, timeout.Done, nil))
		require.False(s, s.settle(token, timeout.Done, nil))
		require.False(s, s.settle(token, timeout.Pending, nil))
		require.False(s, s.extend(token, longLease))
		require.Equal(s, timeout.None, s.get("1").State)
		s.none()
	}},
	{"what has failed waits and keeps why", func(s *suite) {
		answer := s.set("1", 0)
		token := s.lease(1, longLease)[0].Token
		require.True(s, s.settle(token, timeout.Pending, func(o *timeout.Outcome) {
			o.After, o.Error = 300*time.Millisecond, "busy\x01ü"
		}))
		task := s.get("1")
		require.Equal(s, timeout.Pending, task.State)
		require.Equal(s, "busy\x01ü", task.Error)
		require.Equal(s, 1, task.Attempts)
		require.Equal(s, answer.Version, task.Version)
		require.Equal(s, answer.Due.UnixMilli(), task.Due.UnixMilli())
		require.Greater(s, task.Until, task.Due)
		s.none()
		again := s.lease(1, longLease)[0]
		require.Equal(s, 2, again.Attempts)
		require.False(s, again.Again, "nothing was outlived")
		require.NotEqual(s, token.Lease, again.Token.Lease)
		require.False(s, s.settle(token, timeout.Done, nil))
		require.True(s, s.settle(again.Token, timeout.Done, nil))
	}},
	{"a failure can be due at once and be moved", func(s *suite) {
		token := s.bring("1", timeout.Running)
		require.True(s, s.settle(token, timeout.Pending, func(o *timeout.Outcome) { o.After = time.Hour }))
		require.Equal(s, timeout.Pending, s.move("1", 0).Was)
		again := s.lease(1, longLease)[0]
		require.Equal(s, 2, again.Attempts, "a move forgives nothing")
		require.True(s, s.settle(again.Token, timeout.Pending, nil))
		require.Equal(s, 3, s.lease(1, longLease)[0].Attempts)
	}},
	{"an attempt that was not begun is given back", func(s *suite) {
		token := s.bring("1", timeout.Running)
		require.True(s, s.settle(token, timeout.Pending, func(o *timeout.Outcome) { o.Refund = true }))
		require.Zero(s, s.get("1").Attempts)
		require.Equal(s, 1, s.lease(1, longLease)[0].Attempts)
	}},
	{"what is dead stays", func(s *suite) {
		token := s.bring("1", timeout.Running)
		require.True(s, s.settle(token, timeout.Dead, func(o *timeout.Outcome) { o.Error = "why" }))
		task := s.get("1")
		require.Equal(s, timeout.Dead, task.State)
		require.Equal(s, "why", task.Error)
		require.Equal(s, 1, task.Attempts)
		s.none()
		require.EqualValues(s, 1, s.count().Dead)
	}},
	{"an outlived lease is another's", func(s *suite) {
		s.set("1", 0)
		first := s.lease(1, shortLease)[0]
		second := s.lease(1, longLease)[0]
		require.True(s, second.Again)
		require.Equal(s, 2, second.Attempts)
		require.NotEqual(s, first.Token, second.Token)
		require.False(s, s.extend(first.Token, longLease))
		require.False(s, s.settle(first.Token, timeout.Done, nil))
		require.False(s, s.settle(first.Token, timeout.Pending, nil))
		require.Equal(s, timeout.Running, s.get("1").State)
		require.True(s, s.settle(second.Token, timeout.Done, nil))
	}},
	{"an outlived lease that nobody else has got is still good", func(s *suite) {
		s.set("1", 0)
		first := s.lease(1, shortLease)[0]
		time.Sleep(2 * shortLease)
		require.True(s, s.settle(first.Token, timeout.Done, nil))
		s.none()
	}},
	{"a lease that is extended is not outlived", func(s *suite) {
		s.set("1", 0)
		token := s.lease(1, 2*shortLease)[0].Token
		for range 8 {
			time.Sleep(shortLease / 2)
			require.True(s, s.extend(token, 2*shortLease+time.Second))
			s.none()
		}
		require.True(s, s.settle(token, timeout.Done, nil))
	}},
	{"leases can be made shorter", func(s *suite) {
		token := s.bring("1", timeout.Running)
		require.True(s, s.extend(token, shortLease))
		require.True(s, s.lease(1, longLease)[0].Again)
	}},
	{"what outlives its last attempt is dead", func(s *suite) {
		s.make(timeout.Topic{Retries: 1})
		s.set("1", 0)
		s.lease(1, shortLease)
		require.Equal(s, 2, s.lease(1, shortLease)[0].Attempts)
		var died []timeout.Key
		s.eventually(func() bool {
			batch := s.expire(s.ask())
			require.Empty(s, batch.Leased)
			died = append(died, batch.Died...)
			return len(died) > 0
		})
		require.Equal(s, []timeout.Key{s.key("1")}, died)
		task := s.get("1")
		require.Equal(s, timeout.Dead, task.State)
		require.NotEmpty(s, task.Error)
		s.none()
	}},
	{"numbers of leases never come again", func(s *suite) {
		seen := map[timeout.Token]bool{}
		for i := range 30 {
			s.set("1", 0)
			token := s.lease(1, longLease)[0].Token
			require.False(s, seen[token])
			seen[token] = true
			switch i % 3 {
			case 0:
				require.True(s, s.settle(token, timeout.Done, nil))
			case 1:
				require.Equal(s, timeout.Running, s.remove("1").Was)
			}
		}
	}},
	{"a batch is no larger than it may be and tells that there is more", func(s *suite) {
		for i := range 10 {
			s.set(fmt.Sprint(i), 0)
		}
		ask := s.ask()
		ask.Max = 4
		leased := 0
		s.eventually(func() bool {
			batch := s.expire(ask)
			leased += len(batch.Leased)
			if len(batch.Leased) == 4 && leased < 10 {
				require.False(s, batch.Next.IsZero())
				require.False(s, batch.Next.After(batch.Now))
			}
			return leased == 10
		})
		s.none()
	}},
	{"a batch tells when there is more", func(s *suite) {
		_, wakes := s.engine.(timeout.Waker)
		answer := s.set("1", 10*time.Second)
		s.set("2", 20*time.Second)
		batch := s.expire(s.ask())
		require.Empty(s, batch.Leased)
		if wakes && batch.Next.IsZero() {
			return
		}
		require.LessOrEqual(s, batch.Next.UnixMilli(), answer.Due.UnixMilli())
		require.Greater(s, batch.Next.UnixMilli(), batch.Now.UnixMilli())
		s.remove("1")
		s.remove("2")
		s.eventually(func() bool { return s.expire(s.ask()).Next.IsZero() })
	}},
	{"settling and leasing go together", func(s *suite) {
		token := s.bring("1", timeout.Running)
		s.set("2", 0)
		ask := s.ask()
		ask.Settle = []timeout.Outcome{{Token: token, As: timeout.Done}, {Token: token, As: timeout.Done}}
		batch := s.expire(ask)
		require.Equal(s, []bool{true, false}, batch.Settled)
		leased := batch.Leased
		if len(leased) == 0 {
			leased = s.lease(1, longLease)
		}
		require.Equal(s, "2", leased[0].ID)
	}},
	{"only the slots that are asked for are leased from", func(s *suite) {
		kept := s.makeAnew(timeout.Topic{Slots: 4})
		for i := range 80 {
			s.set(fmt.Sprint(i), 0)
		}
		seen := map[string]bool{}
		for _, slots := range [][]int{{0}, {1, 3}, {2}} {
			ask := s.ask()
			ask.Slots = slots
			quiet := 0
			for quiet < 3 {
				batch := s.expire(ask)
				if len(batch.Leased) == 0 {
					quiet++
					time.Sleep(20 * time.Millisecond)
				}
				for _, leased := range batch.Leased {
					require.Contains(s, slots, timeout.Slot(leased.ID, kept.Slots))
					require.False(s, seen[leased.ID])
					seen[leased.ID] = true
				}
			}
		}
		require.Len(s, seen, 80)
		ask := s.ask()
		ask.Slots = []int{}
		s.set("1", 0)
		require.Empty(s, s.expire(ask).Leased)
	}},
	{"an older view gets nothing and may settle", func(s *suite) {
		s.makeAnew(timeout.Topic{Slots: 1})
		token := s.bring("1", timeout.Running)
		s.set("2", 0)
		ask := s.ask()
		ask.Slots, ask.Max = []int{0}, 1
		ask.Term = 7
		s.eventually(func() bool { return len(s.expire(ask).Leased) == 1 })
		s.set("3", 0)
		ask.Term = 6
		ask.Settle = []timeout.Outcome{{Token: token, As: timeout.Done}}
		_, err := s.engine.Expire(s.Context(), ask)
		require.ErrorIs(s, err, timeout.ErrFenced)
		require.Equal(s, timeout.None, s.get("1").State, "it is settled")
		require.Equal(s, timeout.Pending, s.get("3").State)
		ask.Term, ask.Settle = 8, nil
		s.eventually(func() bool { return len(s.expire(ask).Leased) == 1 })
		s.set("4", 0)
		ask.Term = 0
		s.eventually(func() bool { return len(s.expire(ask).Leased) == 1 }, "no term, no fence")
	}},
}
