package timeouttest_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/heartwheel-go/heartwheel/timeout"
	"github.com/heartwheel-go/heartwheel/timeout/timeouttest"
)

var key = timeout.Key{Topic: "unpaid", ID: "4711"}

func TestAnHourPassesAtOnce(t *testing.T) {
	began := time.Now()
	synctest.Test(t, func(t *testing.T) {
		center := timeouttest.New(t, timeout.Config{})
		var ran time.Time
		require.NoError(t, center.Handle("unpaid", func(context.Context, timeout.Task) error { ran = time.Now(); return nil }))
		answer, err := center.Set(t.Context(), timeout.Task{Topic: key.Topic, ID: key.ID, After: time.Hour})
		require.NoError(t, err)
		center.NothingDue(time.Hour - time.Millisecond)
		require.Equal(t, timeout.None, center.Await(key).State)
		require.WithinRange(t, ran, answer.Due, answer.Due.Add(time.Millisecond))
		center.NothingDue(1000 * time.Hour)
	})
	require.Less(t, time.Since(began), time.Minute)
}

func TestEachAttemptIsAwaited(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		center := timeouttest.New(t, timeout.Config{Topic: timeout.Topic{Retries: 1, Retain: time.Hour}})
		require.NoError(t, center.Handle("unpaid", func(context.Context, timeout.Task) error {
			time.Sleep(time.Minute)
			return errors.New("no")
		}))
		_, err := center.Set(t.Context(), timeout.Task{Topic: key.Topic, ID: key.ID})
		require.NoError(t, err)
		time.Sleep(time.Second) // it runs
		task := center.Await(key)
		require.Equal(t, timeout.Pending, task.State)
		require.Equal(t, 1, task.Attempts)
		task = center.Await(key)
		require.Equal(t, timeout.Dead, task.State)
		require.Equal(t, 2, task.Attempts)
		center.NothingDue(time.Hour)
	})
}

// failing is a test whose failures are looked at.
type failing struct {
	testing.TB
	said []string
}

func (f *failing) Errorf(format string, args ...any) {
	f.said = append(f.said, fmt.Sprintf(format, args...))
}
func (f *failing) Fatalf(format string, args ...any) { f.Errorf(format, args...); panic(f) }

// failures returns what a part of a test says as it fails.
func (f *failing) failures(t *testing.T, part func()) []string {
	defer func() {
		if p := recover(); p != nil {
			require.Same(t, f, p)
		}
	}()
	f.said = nil
	part()
	return f.said
}

func TestWhatDoesNotRunFailsTheTest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &failing{TB: t}
		center := timeouttest.New(f, timeout.Config{})
		failsWith := func(want string, part func()) {
			t.Helper()
			f.failures(t, part)
			require.Len(t, f.said, 1)
			require.Contains(t, f.said[0], want)
		}
		failsWith("task unpaid/4711 is none, must wait or run", func() { center.Await(key) })
		_, err := center.Set(t.Context(), timeout.Task{Topic: key.Topic, ID: key.ID, After: time.Minute})
		require.NoError(t, err)
		failsWith("task unpaid/4711 is due in 1m0s, must not be within 1m0s", func() { center.NothingDue(time.Minute) })
		failsWith("no attempt at task unpaid/4711 has ended within 1h0m0s", func() { center.Await(key) }) // no handler

		block := make(chan struct{})
		require.NoError(t, center.Handle(key.Topic, func(context.Context, timeout.Task) error { <-block; return nil }))
		time.Sleep(time.Minute)
		failsWith("task unpaid/4711 runs, must not", func() { center.NothingDue(0) })
		close(block)
		require.Equal(t, timeout.None, center.Await(key).State)
		require.Empty(t, f.failures(t, func() { center.NothingDue(time.Hour) }))
	})
}

func TestABadConfigFailsTheTest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &failing{TB: t}
		f.failures(t, func() { timeouttest.New(f, timeout.Config{Poll: -1}) })
		require.Len(t, f.said, 1)
		require.Contains(t, f.said[0], "Poll")
	})
}
