package timeout

import (
	"errors"
	"fmt"
	"math"
	"strings"
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

			newRun := engine.Outcome{As: Pending, Due: next, NewRun: true}
			require.Equal(t, newRun, end(nil), name)
			require.Equal(t, engine.Outcome{As: Pending, After: time.Hour, NewRun: true}, end(Again(time.Hour)), name)
			require.Equal(t, engine.Outcome{As: Dead, Error: "broken"}, end(Permanent(failure)), name)

			newRun.Error = "broken"
			until := next.Sub(now)
			uncounted := Uncounted(failure)
			require.Equal(t, engine.Outcome{As: Pending, After: until - soon, Release: true}, end(RetryAfter(uncounted, until-soon)), name)
			released := newRun
			released.Release = true
			require.Equal(t, released, end(RetryAfter(uncounted, until)), name)
			require.Equal(t, engine.Outcome{As: Dead, Error: "broken"}, end(Permanent(uncounted)), name)
			require.Equal(t, newRun, end(RetryAfter(failure, until)), name)
			if attempts == 3 {
				require.Equal(t, newRun, end(failure), name)
				require.Equal(t, newRun, end(RetryAfter(failure, 0)), name)
			} else {
				require.Equal(t, engine.Outcome{As: Pending, After: until - soon, Error: "broken"}, end(RetryAfter(failure, until-soon)), name)
			}
			if o := end(failure); !o.NewRun {
				require.True(t, now.Add(o.After).Before(next), name)
			}
			newRun.Error = "timeout: failed"
			require.Equal(t, newRun, end(RetryAfter(errors.New(""), time.Hour)), name)
		}
	}
}

// An engine leases a task once more after its last attempt, or one whose topic has fewer retries now than when it failed.
func TestATaskWithoutAnAttemptLeftIsNotRun(t *testing.T) {
	topic := Topic{Name: "t", Every: "1m", Retries: 2}
	schedule, err := scheduleOf(topic)
	require.NoError(t, err)
	now := time.UnixMilli(1_800_000_000_000)
	for attempts, over := range map[int]bool{1: false, 3: false, 4: true, 5: true} {
		one := Leased{Task: Task{Topic: "t", ID: "1", Due: now, Attempts: attempts}, Token: Token{Part: "p", Lease: 7}}
		outcome, is := expired(topic, nil, &one, now)
		require.Equal(t, over, is)
		if over {
			require.Equal(t, engine.Outcome{Token: one.Token, As: Dead, Release: true, Error: "timeout: a lease ended"}, outcome)
		}
		outcome, is = expired(topic, schedule, &one, now)
		require.Equal(t, over, is)
		if over {
			require.Equal(t, engine.Outcome{Token: one.Token, As: Pending, Due: now.Add(time.Minute), NewRun: true, Release: true, Error: "timeout: a lease ended"}, outcome)
		}
		one.Options.Retries = attempts - 1 // the task's own count
		_, is = expired(topic, nil, &one, now)
		require.False(t, is)
	}
}

func TestATaskIsNotBegunAfterItsNotAfter(t *testing.T) {
	now := time.UnixMilli(1_800_000_000_000)
	one := Leased{Task: Task{Topic: "t", ID: "1", Due: now, Attempts: 1}, Token: Token{Part: "p", Lease: 7}}
	one.Options.NotAfter = now
	_, is := expired(Topic{Name: "t"}, nil, &one, now)
	require.False(t, is)
	outcome, is := expired(Topic{Name: "t"}, nil, &one, now.Add(time.Millisecond))
	require.True(t, is)
	require.Equal(t, engine.Outcome{Token: one.Token, As: Dead, Error: "timeout: not begun before NotAfter, 2027-01-15 08:00:00 +0000 UTC"}, outcome)
}

func TestWaitsDoubleUpToALimitLessJitter(t *testing.T) {
	for _, c := range []struct {
		backoff, most time.Duration
		attempts      int
		want          time.Duration
	}{
		{time.Second, time.Hour, 0, time.Second},
		{time.Second, time.Hour, 1, time.Second},
		{time.Second, time.Hour, 2, 2 * time.Second},
		{time.Second, time.Hour, 4, 8 * time.Second},
		{time.Second, 5 * time.Second, 4, 5 * time.Second},
		{time.Second, time.Hour, math.MaxInt, time.Hour},
		{time.Nanosecond, 100 * 24 * time.Hour, 41, 1 << 40},
		{engine.MaxDuration, engine.MaxDuration, 1000, engine.MaxDuration},
		{1 << 40, engine.MaxDuration, 33, engine.MaxDuration}, // shifted beyond int64
		{0, 0, 1, engine.DefaultBackoff},
	} {
		topic := Topic{Name: "t", Backoff: c.backoff, BackoffMax: c.most}
		least, most := time.Duration(1<<63-1), time.Duration(0)
		for range 1000 {
			wait := retryWait(topic, c.attempts)
			least, most = min(least, wait), max(most, wait)
		}
		require.LessOrEqual(t, most, c.want, "%+v", c)
		require.Greater(t, most, c.want/10*9, "%+v", c)
		require.GreaterOrEqual(t, least, c.want-c.want/2, "%+v", c)
		require.Less(t, least, c.want/10*6, "%+v", c)
	}
	require.Zero(t, jitter(0))
	require.Zero(t, jitter(-time.Second))
}

func TestAnErrorIsCutBetweenCharacters(t *testing.T) {
	full := strings.Repeat("x", engine.MaxError)
	for text, want := range map[string]string{
		"":                      "",
		full:                    full,
		full + "x":              full,
		full[1:] + "é":          full[1:],
		full[2:] + "é":          full[2:] + "é",
		full[1:] + "\U0001F4A5": full[1:],
		"a\x00b\xffc":           "a\uFFFDb\uFFFDc",
	} {
		require.Equal(t, want, clip(text))
	}
}
