package timeout

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestThePlaceGoesToTheTopicThatHasUsedLeastForItsPriority(t *testing.T) {
	for _, c := range []struct {
		claims []claim
		want   int
	}{
		{[]claim{{0, 1}}, 0},
		{[]claim{{0, 1}, {0, 1}}, 0},
		{[]claim{{0, 1}, {0, 6}, {0, 6}}, 1},
		{[]claim{{1, 1}, {5, 6}}, 1},
		{[]claim{{1, 1}, {6, 6}}, 1},
		{[]claim{{1, 1}, {7, 6}}, 0},
		{[]claim{{1000, 1000}, {1.5, 1}, {0.5, 1}}, 2},
	} {
		var a fairQueue
		for _, one := range c.claims {
			a.flows = append(a.flows, &flow{claim: one, wants: 1})
		}
		require.Same(t, a.flows[c.want], a.best(nil), "%v", c.claims)
	}
}

// simulation runs topics on an fairQueue for a while. Each has a backlog without end.
type simulation struct {
	fairQueue
	at      time.Time
	topics  []*flow
	lengths []time.Duration
	use     []time.Duration
	waited  []time.Duration // the longest time without a place
	last    []time.Time
	ends    []end
}

type end struct {
	at    time.Time
	topic int
}

func simulate(places int, priorities []int, lengths []time.Duration, d time.Duration) *simulation {
	s := &simulation{fairQueue: fairQueue{limit: places, at: time.Unix(1, 0)}, at: time.Unix(1, 0), lengths: lengths}
	n := len(priorities)
	s.use, s.waited, s.last = make([]time.Duration, n), make([]time.Duration, n), make([]time.Time, n)
	for i, priority := range priorities {
		t := &flow{}
		t.priority, t.wants = priority, places
		s.topics, s.flows, s.last[i] = append(s.topics, t), append(s.flows, t), s.at
	}
	s.fill()
	for until := s.at.Add(d); s.at.Before(until); {
		first := 0
		for i := range s.ends {
			if s.ends[i].at.Before(s.ends[first].at) {
				first = i
			}
		}
		e := s.ends[first]
		s.ends = append(s.ends[:first], s.ends[first+1:]...)
		s.at = e.at
		s.count(s.at)
		s.topics[e.topic].held--
		s.held--
		s.fill()
	}
	return s
}

// fill gives all free places to those that the fairQueue chooses.
func (s *simulation) fill() {
	for s.held < s.limit {
		best := s.best(nil)
		for i, t := range s.topics {
			if t == best {
				s.waited[i] = max(s.waited[i], s.at.Sub(s.last[i]))
				length := s.lengths[i]
				s.use[i] += length
				s.ends = append(s.ends, end{s.at.Add(length), i})
			}
		}
		s.give(best, 1)
		for i, t := range s.topics {
			if t.held > 0 {
				s.last[i] = s.at
			}
		}
	}
}

func TestTopicsUseThePlacesByTheirPriorities(t *testing.T) {
	const fast, slow = 10 * time.Millisecond, time.Second
	for _, places := range []int{1, 3, 10} {
		for _, priorities := range [][]int{{1, 1}, {6, 3, 1}, {1, 1, 10}} {
			for _, lengths := range [][]time.Duration{{fast, fast, fast}, {slow, fast, fast}, {fast, fast, slow}, {slow, slow, fast}} {
				t.Run(fmt.Sprintf("places=%d/priorities=%v/lengths=%v", places, priorities, lengths), func(t *testing.T) {
					const d = time.Minute
					s := simulate(places, priorities, lengths[:len(priorities)], d)
					sum := 0
					for _, p := range priorities {
						sum += p
					}
					for i, p := range priorities {
						want := float64(places) * d.Seconds() * float64(p) / float64(sum)
						require.InDelta(t, want, s.use[i].Seconds(), want/10+float64(places)*lengths[i].Seconds(), "topic %d", i)
						require.Less(t, s.waited[i], d/2, "topic %d", i)
					}
				})
			}
		}
	}
}

// However little a topic's priority is, it has its turn: a thousandth beside the highest one.
func TestNoTopicStarves(t *testing.T) {
	s := simulate(1, []int{1, 1000}, []time.Duration{time.Second, time.Second}, time.Hour)
	require.InDelta(t, 4, s.use[0].Seconds(), 1)
}

// Only waiting counts: the first topic to wait makes all begin at zero, and a later one begins beside those
// that wait already.
func TestNobodyPaysForPlacesThatNobodyWantedAndNobodySavesThemUp(t *testing.T) {
	at := func(seconds int) time.Time { return time.Unix(1000+int64(seconds), 0) }
	a := &fairQueue{limit: 2, at: at(0)}
	first, second, third := &flow{}, &flow{}, &flow{}
	for _, t := range []*flow{first, second, third} {
		a.add(t)
	}
	require.Equal(t, 2, a.want(first, 2, 2, at(0)))
	require.Zero(t, a.want(second, 4, 1, at(1000)), "all places are taken")
	require.Equal(t, []float64{0, 0}, []float64{first.used, second.used})
	require.Zero(t, a.want(first, 2, 3, at(1010)))
	require.Equal(t, []float64{20, 0}, []float64{first.used, second.used}, "two places for ten seconds, while one waited")
	require.Zero(t, a.want(third, 6, 1, at(1020)))
	require.Equal(t, []float64{40, 0, 0}, []float64{first.used, second.used, third.used}, "no more than those that wait")
	require.Zero(t, a.want(second, 4, 0, at(1030)))
	require.Zero(t, a.want(third, 6, 0, at(1030)))
	require.Zero(t, a.want(second, 4, 1, at(1040)))
	require.InDelta(t, 4*80/2, second.used, 1e-9, "as much for its priority as the one that waits")
	require.False(t, a.keeps(first, 3, at(1040)), "of equals the one with the higher priority")
}
