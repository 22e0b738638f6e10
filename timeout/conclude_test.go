package timeout

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/heartwheel-go/heartwheel/timeout/engine"
)

// Each end of an attempt at a periodic task, with each of its three attempts: a run that succeeds or
// is given up begins the next at its time, and a retry never takes the place of that.
func TestAPeriodicTaskEndsOnlyForAReason(t *testing.T) {
	topic := Topic{Name: "t", Every: "1m", Retries: 2, Backoff: 20 * time.Second}
	schedule, err := scheduleOf(topic)
	require.NoError(t, err)
	due := time.UnixMilli(1_800_000_000_000)
	failure := errors.New("broken")
	const soon = time.Nanosecond
	for _, late := range []time.Duration{-time.Second, 0, soon, 30 * time.Second, time.Minute - soon, time.Minute, 10 * time.Minute} {
		now := due.Add(late)
		next := due.Add(time.Minute)
		for !next.After(now) {
			next = next.Add(time.Minute)
		}
		for attempts := 1; attempts <= 3; attempts++ {
			task := Task{Topic: "t", ID: "1", Due: due, Attempts: attempts}
			end := func(err error) engine.Outcome { return conclude(topic, schedule, task, now, err) }
			name := fmt.Sprintf("late=%v/attempts=%d", late, attempts)

			anew := engine.Outcome{As: Pending, Due: next, Anew: true}
			require.Equal(t, anew, end(nil), name)
			require.Equal(t, engine.Outcome{As: Pending, After: time.Hour, Anew: true}, end(Again(time.Hour)), name)
			require.Equal(t, engine.Outcome{As: Dead, Error: "broken"}, end(Permanent(failure)), name)

			anew.Error = "broken"
			until := next.Sub(now)
			require.Equal(t, anew, end(RetryAfter(failure, until)), name)
			if attempts == 3 {
				require.Equal(t, anew, end(failure), name)
				require.Equal(t, anew, end(RetryAfter(failure, 0)), name)
			} else {
				require.Equal(t, engine.Outcome{As: Pending, After: until - soon, Error: "broken"}, end(RetryAfter(failure, until-soon)), name)
			}
			if o := end(failure); !o.Anew {
				require.True(t, now.Add(o.After).Before(next), name)
			}
			anew.Error = "timeout: failed"
			require.Equal(t, anew, end(RetryAfter(errors.New(""), time.Hour)), name)
		}
	}
}
