package timeout_test

import (
	"context"
	"errors"
	"maps"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/heartwheel-go/heartwheel/timeout"
	"github.com/heartwheel-go/heartwheel/timeout/engine"
	"github.com/heartwheel-go/heartwheel/timeout/memory"
)

// deaths are the calls of OnDead.
type deaths struct {
	mu    sync.Mutex
	calls map[string]string
}

func (d *deaths) add(key timeout.Key, failure string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if _, twice := d.calls[key.ID]; twice {
		panic(key.ID + " has died before")
	}
	d.calls[key.ID] = failure
	if key.ID == "panics" {
		panic("in OnDead")
	}
}

func (d *deaths) all() map[string]string {
	d.mu.Lock()
	defer d.mu.Unlock()
	return maps.Clone(d.calls)
}

func newDeaths() *deaths { return &deaths{calls: make(map[string]string)} }

func TestEachDeathIsToldOnce(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		d := newDeaths()
		r := newRig(t, timeout.Config{OnDead: d.add, Topic: timeout.Topic{Retries: 1, Backoff: time.Second}})
		require.NoError(t, r.Handle("orders", func(_ context.Context, task timeout.Task) error {
			switch task.ID {
			case "well":
				return nil
			case "permanent":
				return timeout.Permanent(errors.New("no such order"))
			case "recovers":
				if task.Attempts == 2 {
					return nil
				}
			}
			return errors.New("no answer")
		}))
		for _, id := range []string{"well", "panics", "permanent", "recovers", "fails"} {
			r.set(id, 0)
		}
		pass(time.Minute)
		want := map[string]string{"panics": "no answer", "permanent": "no such order", "fails": "no answer"}
		require.Equal(t, want, d.all())
		require.Equal(t, engine.None, r.state("well").State)
		require.EqualValues(t, len(want), r.stats().Dead)
	})
}

func TestTheDeathOfAPulledTaskIsTold(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		d := newDeaths()
		r := newRig(t, timeout.Config{OnDead: d.add}).pulled(timeout.Topic{Retries: -1, Lease: time.Second})
		r.set("told", 0)
		require.True(t, r.tell(r.pull(1, time.Minute)[0].Token, errors.New("broken")))
		require.Equal(t, map[string]string{"told": "broken"}, d.all())
		r.set("lost", 0)
		require.Len(t, r.pull(1, time.Minute), 1)
		_, err := r.Pull(t.Context(), timeout.Pull{Topic: "orders", Max: 1, Wait: time.Minute})
		require.NoError(t, err)
		synctest.Wait()
		require.Contains(t, d.all()["lost"], "ended in attempt 1")
	})
}

// An outcome without effect is no death.
func TestATaskThatIsSetAnewDoesNotDie(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		store, err := memory.New(memory.Config{})
		require.NoError(t, err)
		t.Cleanup(func() { require.NoError(t, store.Close()) })
		d := newDeaths()
		r := rigOn(t, store, timeout.Config{OnDead: d.add, Topic: timeout.Topic{Retries: -1}})
		require.NoError(t, r.Handle("orders", func(ctx context.Context, task timeout.Task) error {
			_, err := store.Set(ctx, []timeout.Task{{Topic: "orders", ID: task.ID, After: time.Hour}})
			require.NoError(t, err)
			return errors.New("no")
		}))
		r.set("1", 0)
		pass(time.Minute)
		require.Empty(t, d.all())
		require.Equal(t, timeout.Pending, r.state("1").State)
	})
}
