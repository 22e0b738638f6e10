package timeout_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/heartwheel-go/heartwheel/timeout"
	"github.com/heartwheel-go/heartwheel/timeout/engine"
	"github.com/heartwheel-go/heartwheel/timeout/memory"
)

func (r *rig) setWith(id string, options timeout.Options) {
	r.t.Helper()
	_, err := r.Set(r.t.Context(), timeout.Task{Topic: "orders", ID: id, Options: options})
	require.NoError(r.t, err)
}

func TestATaskHasRetriesAndWaitsOfItsOwn(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		r := newRig(t, timeout.Config{Topic: timeout.Topic{Retries: 2, Backoff: time.Second, BackoffMax: time.Second}})
		tries := map[string][]time.Time{}
		require.NoError(t, r.Handle("orders", func(_ context.Context, task timeout.Task) error {
			tries[task.ID] = append(tries[task.ID], time.Now())
			return errors.New("no")
		}))
		r.setWith("usual", timeout.Options{})
		pass(time.Minute)
		r.setWith("never", timeout.Options{Retries: -1})
		pass(time.Minute)
		r.setWith("often", timeout.Options{Retries: 5})
		pass(time.Minute)
		r.setWith("rarely", timeout.Options{Retries: 1, Backoff: time.Hour})
		pass(2 * time.Hour)
		for id, want := range map[string]int{"usual": 3, "never": 1, "often": 6, "rarely": 2} {
			require.Len(t, tries[id], want, id)
			require.Equal(t, timeout.Dead, r.state(id).State, id)
		}
		require.GreaterOrEqual(t, tries["rarely"][1].Sub(tries["rarely"][0]), 30*time.Minute, "half of an hour at least")
	})
}

// A node that leases tasks again and again and dies each time leaves the last attempt of each to the others, which don't begin it.
func TestATaskWhoseWorkersDieHasItsOwnRetries(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		store, err := memory.New(memory.Config{})
		require.NoError(t, err)
		t.Cleanup(func() { require.NoError(t, store.Close()) })
		_, err = store.SetTopic(t.Context(), timeout.Topic{Name: "orders", Retries: 1}, false)
		require.NoError(t, err)
		attempts := map[string]int{"never": 1, "usual": 2, "often": 4, "more often": 5}
		_, err = store.Set(t.Context(), []timeout.Task{
			{Topic: "orders", ID: "never", Options: timeout.Options{Retries: -1}},
			{Topic: "orders", ID: "usual"},
			{Topic: "orders", ID: "often", Options: timeout.Options{Retries: 3}},
			{Topic: "orders", ID: "more often", Options: timeout.Options{Retries: 4}},
		})
		require.NoError(t, err)
		ask := engine.Ask{Topic: "orders", Node: "dead", Max: 10, Lease: time.Second}
		for attempt := range 4 {
			batch, err := store.Lease(t.Context(), ask)
			require.NoError(t, err)
			for _, one := range batch.Leased {
				require.Equal(t, attempt+1, one.Attempts)
				if attempts[one.ID] == one.Attempts {
					_, err = store.Extend(t.Context(), []engine.Token{one.Token}, 5*time.Second) // no lease after its last
					require.NoError(t, err)
				}
			}
			pass(time.Second)
		}
		pass(5 * time.Second)
		r := rigOn(t, store, timeout.Config{})
		var ran []string
		require.NoError(t, r.Handle("orders", func(_ context.Context, task timeout.Task) error { ran = append(ran, task.ID); return nil }))
		pass(time.Second)
		require.Equal(t, []string{"more often"}, ran)
		delete(attempts, "more often")
		require.EqualValues(t, len(attempts), r.stats().Dead)
		for id, last := range attempts {
			task := r.state(id)
			require.Equal(t, timeout.Dead, task.State, id)
			require.Equal(t, []int{last, last, last}, []int{task.Attempts, task.Calls, task.Failures}, id)
			require.Equal(t, engine.LeaseEnded("dead", last), task.Error)
			log, err := r.Executions(t.Context(), task.Key(), 10)
			require.NoError(t, err)
			require.Len(t, log, last, "it has the attempts, not what ended the task")
		}
	})
}

func TestATaskHasATimeoutOfItsOwn(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		r := newRig(t, timeout.Config{Topic: timeout.Topic{Retries: -1, Timeout: 10 * time.Second}})
		took := map[string]time.Duration{}
		require.NoError(t, r.Handle("orders", func(ctx context.Context, task timeout.Task) error {
			began := time.Now()
			<-ctx.Done()
			took[task.ID] = time.Since(began)
			return context.Cause(ctx)
		}))
		for id, options := range map[string]timeout.Options{"usual": {}, "short": {Timeout: time.Second}, "long": {Timeout: 5 * time.Minute}} {
			r.setWith(id, options)
			pass(10 * time.Minute)
		}
		require.Equal(t, map[string]time.Duration{"usual": 10 * time.Second, "short": time.Second, "long": 5 * time.Minute}, took)
		require.Contains(t, r.state("short").Error, "took too long")
	})
}

// A handler that ignores the end of its context keeps its place until a lease after the task's own limit.
func TestAHandlerMayHangForAsLongAsItsTaskSays(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		r := newRig(t, timeout.Config{Topic: timeout.Topic{Retries: -1, Timeout: time.Second, Lease: 10 * time.Second}})
		require.NoError(t, r.Handle("orders", func(context.Context, timeout.Task) error { time.Sleep(time.Hour); return nil }))
		r.setWith("usual", timeout.Options{})
		r.setWith("long", timeout.Options{Timeout: 2 * time.Hour})
		pass(time.Minute)
		require.Equal(t, timeout.Dead, r.state("usual").State)
		require.Equal(t, timeout.Running, r.state("long").State)
		pass(2 * time.Hour)
		require.Equal(t, timeout.None, r.state("long").State, "done")
	})
}

func TestATaskThatIsTooLateIsDead(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		r := newRig(t, timeout.Config{})
		ran := record{}
		require.NoError(t, r.Handle("orders", func(_ context.Context, task timeout.Task) error {
			ran.add(task.ID)
			return timeout.RetryAfter(errors.New("busy"), time.Hour)
		}))
		pass(time.Second) // the topic is made
		require.NoError(t, r.Pause(t.Context(), "orders"))
		soon, later := time.Now().Add(time.Minute), time.Now().Add(90*time.Minute)
		r.setWith("paused", timeout.Options{NotAfter: soon})
		r.setWith("retried", timeout.Options{NotAfter: later})
		pass(2 * time.Minute)
		require.NoError(t, r.Resume(t.Context(), "orders"))
		pass(3 * time.Hour)
		require.Equal(t, []string{"retried", "retried"}, ran.ids, "the third attempt would be too late")
		for _, id := range []string{"paused", "retried"} {
			require.Equal(t, timeout.Dead, r.state(id).State, id)
			require.Contains(t, r.state(id).Error, "not begun before NotAfter", id)
		}
		require.EqualValues(t, 2, r.stats().Dead)
	})
}

func TestOptionsThatMakeNoSenseAreRefused(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		r := newRig(t, timeout.Config{})
		for want, task := range map[string]timeout.Task{
			"Retries 1000001 of a task, must be at most 1000000":                  {Options: timeout.Options{Retries: 1_000_001}},
			"Backoff -1s of a task, must not be negative":                         {Options: timeout.Options{Backoff: -time.Second}},
			"BackoffMax -1s of a task, must not be negative":                      {Options: timeout.Options{BackoffMax: -time.Second}},
			"Timeout 2562047h47m16.854775807s of a task, must be at most 876000h": {Options: timeout.Options{Timeout: 1<<63 - 1}},
			"Backoff 2s of a task, must be at most its BackoffMax 1s":             {Options: timeout.Options{Backoff: 2 * time.Second, BackoffMax: time.Second}},
			"NotAfter: timeout: invalid argument: action time":                    {Options: timeout.Options{NotAfter: time.Unix(-1, 0)}},
			"must not be after NotAfter":                                          {Due: time.Now().Add(time.Hour), Options: timeout.Options{NotAfter: time.Now()}},
			"Metadata with a name of 0 bytes, must have 1 to 64":                  {Options: timeout.Options{Metadata: map[string]string{"": "x"}}},
			`Metadata "a": "\n", must be UTF-8 without control characters`:        {Options: timeout.Options{Metadata: map[string]string{"a": "\n"}}},
			"Metadata has 2049 bytes, must have at most 2048":                     {Options: timeout.Options{Metadata: map[string]string{"a": strings.Repeat("x", 2048)}}},
		} {
			task.Topic, task.ID = "orders", "1"
			_, err := r.Set(t.Context(), task)
			require.ErrorIs(t, err, timeout.ErrArgument, want)
			require.ErrorContains(t, err, want)
			require.ErrorContains(t, err, "orders/1")
		}
	})
}
