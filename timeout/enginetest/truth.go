package enginetest

import (
	"fmt"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/heartwheel-go/heartwheel/timeout"
)

// wanted is what an index would know of a task.
func wanted(task timeout.Task) timeout.Wanted {
	return timeout.Wanted{ID: task.ID, Version: task.Version, At: task.Until}
}

func (s *suite) claim(truth timeout.Truth, wanted ...timeout.Wanted) []timeout.Claimed {
	s.Helper()
	claimed, err := truth.Claim(s.Context(), s.topic, "claimer", wanted, longLease)
	require.NoError(s, err)
	require.Len(s, claimed, len(wanted))
	return claimed
}

var truths = []test{
	{"what is upcoming is told once and in order", func(s *suite) {
		truth, ok := s.engine.(timeout.Truth)
		if !ok {
			return
		}
		for i := range 50 {
			s.set(fmt.Sprint("soon-", i), time.Duration(50-i)*time.Second)
			s.set(fmt.Sprint("later-", i), time.Hour)
		}
		s.set("running", 0)
		s.lease(1, 30*time.Second)
		now, err := truth.Now(s.Context())
		require.NoError(s, err)
		seen := map[string]bool{}
		last := time.Time{}
		for cursor := ""; ; {
			page, err := truth.Upcoming(s.Context(), s.topic, nil, now.Add(10*time.Minute), cursor, 7)
			require.NoError(s, err)
			require.LessOrEqual(s, len(page.Wanted), 7)
			for _, w := range page.Wanted {
				require.False(s, seen[w.ID])
				seen[w.ID] = true
				require.False(s, w.At.Before(last))
				last = w.At
				task := s.get(w.ID)
				require.Equal(s, wanted(task), w)
			}
			if cursor = page.Next; cursor == "" {
				break
			}
		}
		require.Len(s, seen, 51)
		require.True(s, seen["running"])
		mine, err := truth.Upcoming(s.Context(), s.topic, []int{1, 2}, now.Add(10*time.Minute), "", 100)
		require.NoError(s, err)
		require.NotEmpty(s, mine.Wanted)
		for _, w := range mine.Wanted {
			require.Contains(s, []int{1, 2}, timeout.Slot(w.ID, timeout.DefaultSlots))
		}
	}},
	{"what is claimed is leased if it is due and has that version", func(s *suite) {
		truth, ok := s.engine.(timeout.Truth)
		if !ok {
			return
		}
		s.make(timeout.Topic{Retain: time.Hour, Retries: -1})
		for _, state := range states {
			s.bring(state.String(), state)
		}
		s.set("due", 0)
		s.set("old", 0)
		old := wanted(s.get("old"))
		s.set("old", time.Hour)
		due := wanted(s.get("due"))
		other := due
		other.Version++
		time.Sleep(5 * time.Millisecond)
		claimed := s.claim(truth, other, due, old, wanted(s.get("pending")), wanted(s.get("running")), wanted(s.get("done")), wanted(s.get("dead")), wanted(s.get("removed")), timeout.Wanted{ID: "none", Version: 1})
		for i, want := range []bool{false, true, false, false, false, false, false, false, false} {
			require.Equal(s, want, claimed[i].OK, i)
			require.Equal(s, i == 3 || i == 4, !claimed[i].At.IsZero(), i)
		}
		require.Equal(s, s.get("pending").Until.UnixMilli(), claimed[3].At.UnixMilli())
		leased := claimed[1].Leased
		require.Equal(s, "due", leased.ID)
		require.Equal(s, 1, leased.Attempts)
		require.Equal(s, timeout.Running, leased.State)
		require.Equal(s, "claimer", leased.Node)
		again := s.claim(truth, due)[0]
		require.False(s, again.OK)
		require.Equal(s, leased.Until.UnixMilli(), again.At.UnixMilli())
		require.True(s, s.extend(leased.Token, shortLease))
		require.True(s, s.settle(leased.Token, timeout.Done, nil))
		require.Equal(s, timeout.Done, s.get("due").State)
	}},
	{"an outlived lease can be claimed until there is no attempt left", func(s *suite) {
		truth, ok := s.engine.(timeout.Truth)
		if !ok {
			return
		}
		s.make(timeout.Topic{Retries: 1})
		s.set("1", 0)
		s.lease(1, shortLease)
		time.Sleep(2 * shortLease)
		claimed := s.claim(truth, wanted(s.get("1")))[0]
		require.True(s, claimed.OK)
		require.True(s, claimed.Leased.Again)
		require.Equal(s, 2, claimed.Leased.Attempts)
		require.True(s, s.extend(claimed.Leased.Token, shortLease))
		time.Sleep(2 * shortLease)
		gone := s.claim(truth, wanted(s.get("1")))[0]
		require.False(s, gone.OK)
		require.True(s, gone.At.IsZero())
		require.Equal(s, timeout.Dead, s.get("1").State)
	}},
}
