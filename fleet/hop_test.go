package fleet

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/heartwheel-go/heartwheel/internal/testserver"
)

// hop is a registration: when it was asked for, and when it was answered.
type hop struct {
	*Session
	from, to time.Time
}

// paced sends numbers at a rate, for some time, and is late rather than leaves one out.
func paced(perSecond int, d time.Duration) <-chan int {
	count := int(float64(perSecond) * d.Seconds())
	due, began := make(chan int, count), time.Now()
	go func() {
		defer close(due)
		for i := range count {
			time.Sleep(time.Until(began.Add(time.Duration(i) * time.Second / time.Duration(perSecond))))
			due <- i
		}
	}()
	return due
}

// It is not for beside others: it takes all of a small machine.
func TestSessionsThatHopAThousandTimesASecondHaveOneOwnerAndNoEnd(t *testing.T) {
	for _, test := range []struct{ sessions, perSecond int }{{1, 1000}, {100, 2000}} {
		t.Run(fmt.Sprintf("sessions=%d", test.sessions), func(t *testing.T) {
			r := newReal(t, testserver.SharedRedis(t), 3, nil)
			hops := hopAround(t, r, test.sessions, test.perSecond, 4*time.Second)
			nodes := func() (all int) {
				for _, n := range r.nodes {
					all += n.Len()
				}
				return all
			}
			eventually(t, func() bool { return nodes() == test.sessions }, "each has one owner")
			for _, own := range hops {
				checkHops(t, r, own)
			}
			t.Parallel() // it waits from here on

			time.Sleep(quickLease + 200*time.Millisecond) // longer than a lease
			require.Equal(t, test.sessions, nodes())
			require.Empty(t, r.diary.offlines())
		})
	}
}

// hopAround registers sessions here and there, each on another node than before, and returns
// what came of it, by session.
func hopAround(t *testing.T, r *realFleet, sessions, perSecond int, d time.Duration) map[string][]hop {
	var mu sync.Mutex
	hops := make(map[string][]hop)
	var all sync.WaitGroup
	began, due, faster := time.Now(), paced(perSecond, d), 0
	for range 16 {
		all.Go(func() {
			for i := range due {
				id, from := fmt.Sprint("hopper-", i%sessions), time.Now()
				s, err := comeBack(r.nodes[i/sessions%len(r.nodes)], id)
				mu.Lock()
				switch {
				case err == nil:
					hops[id] = append(hops[id], hop{s, from, time.Now()})
				case errors.Is(err, ReasonMoved): // registered, and here again at once
					faster++
				default:
					t.Error(err)
				}
				mu.Unlock()
			}
		})
	}
	all.Wait()
	took, count := time.Since(began), faster
	for _, own := range hops {
		count += len(own)
	}
	t.Logf("%d hops in %v: %.0f per second", count, took, float64(count)/took.Seconds())
	require.Equal(t, int(float64(perSecond)*d.Seconds()), count)
	return hops
}

// checkHops looks at all registrations of a session.
func checkHops(t *testing.T, r *realFleet, hops []hop) {
	t.Helper()
	slices.SortFunc(hops, func(a, b hop) int { return cmp.Compare(a.Epoch(), b.Epoch()) })
	newest := hops[len(hops)-1]
	first := newest.to // when the first of those with higher epochs was answered
	for i, h := range slices.Backward(hops[:len(hops)-1]) {
		if h.Epoch() >= hops[i+1].Epoch() {
			t.Fatalf("epoch %d before %d", h.Epoch(), hops[i+1].Epoch())
		}
		if h.from.After(first) {
			t.Fatal("who has asked later has a lower epoch")
		}
		if h.to.Before(first) {
			first = h.to
		}
		if h.Reason() != ReasonMoved {
			t.Fatal("it has not moved: ", h.Reason())
		}
		eventually(t, func() bool { return h.Conn().(*conn).closed.Load() == 1 }, "its connection is closed")
	}
	require.True(t, newest.Alive())
	where, err := r.nodes[0].Lookup(ctx, newest.ID())
	require.NoError(t, err)
	require.Equal(t, newest.Epoch(), where.Epoch)
}
