package timeout_test

import (
	"context"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/heartwheel-go/heartwheel/timeout"
	"github.com/heartwheel-go/heartwheel/timeout/engine"
	"github.com/heartwheel-go/heartwheel/timeout/memory"
)

// extender is an engine in memory with a count of extended leases. It may fail to extend them, or take long.
type extender struct {
	*memory.Engine
	extended atomic.Int64
	fails    atomic.Bool
	takes    atomic.Int64 // nanoseconds
}

func newExtender(t *testing.T) *extender {
	e, err := memory.New(memory.Config{})
	require.NoError(t, err)
	t.Cleanup(func() { _ = e.Close() })
	return &extender{Engine: e}
}

func (e *extender) Extend(ctx context.Context, tokens []engine.Token, lease time.Duration) ([]bool, error) {
	e.extended.Add(int64(len(tokens)))
	if e.fails.Load() {
		return nil, errRefused
	}
	defer time.Sleep(time.Duration(e.takes.Load()))
	return e.Engine.Extend(ctx, tokens, lease)
}

// ending is what a handler saw at the end of its context.
type ending struct {
	id    string
	cause error
	at    time.Time
}

// waiting returns a running node whose handler waits for the end of its context, and a channel of these ends.
func waiting(t *testing.T, e engine.Engine) (*rig, chan ending) {
	r := rigOn(t, e, timeout.Config{Topic: timeout.Topic{Lease: time.Minute}})
	endings := make(chan ending, 100)
	require.NoError(t, r.Handle("orders", func(ctx context.Context, task timeout.Task) error {
		<-ctx.Done()
		endings <- ending{task.ID, context.Cause(ctx), time.Now()}
		return nil
	}))
	pass(time.Second)
	return r, endings
}

// These end a lease.
var endsLease = []struct {
	name string
	do   func(t *testing.T, c *timeout.Center)
}{
	{"Remove", func(t *testing.T, c *timeout.Center) {
		answer, err := c.Remove(t.Context(), key("1"))
		require.NoError(t, err)
		require.Equal(t, timeout.Running, answer.Was)
	}},
	{"RemoveAll", func(t *testing.T, c *timeout.Center) {
		_, err := c.RemoveAll(t.Context(), []timeout.Removal{{Key: key("0")}, {Key: key("1")}})
		require.NoError(t, err)
	}},
	{"Set", func(t *testing.T, c *timeout.Center) {
		_, err := c.Set(t.Context(), timeout.Task{Topic: "orders", ID: "1", After: time.Hour})
		require.NoError(t, err)
	}},
	{"SetAll", func(t *testing.T, c *timeout.Center) {
		_, err := c.SetAll(t.Context(), []timeout.Task{{Topic: "orders", ID: "1", After: time.Hour}})
		require.NoError(t, err)
	}},
	{"DropTopic", func(t *testing.T, c *timeout.Center) { require.NoError(t, c.DropTopic(t.Context(), "orders")) }},
}

func TestAHandlerHearsAtOnceThatItsLeaseHasEnded(t *testing.T) {
	for _, end := range endsLease {
		for _, where := range []string{"on another node", "on its own node, and the engine tells nobody"} {
			t.Run(end.name+" "+where, func(t *testing.T) {
				inBubble(t, func(t *testing.T) {
					var e engine.Engine = newExtender(t)
					if where != "on another node" {
						e = struct{ engine.Engine }{e}
					}
					r, endings := waiting(t, e)
					by := r
					if where == "on another node" {
						by = rigOn(t, e, timeout.Config{Node: "other"})
						pass(20 * time.Second) // it has slots, too
					}
					for _, id := range []string{"1", "2"} {
						r.set(id, 0)
					}
					pass(6 * time.Second)
					require.Equal(t, 2, r.stats().Running)
					began := time.Now()
					end.do(t, by.Center)
					synctest.Wait()
					first := <-endings
					require.Equal(t, timeout.ErrLeaseLost, first.cause)
					require.Zero(t, first.at.Sub(began))
					if end.name != "DropTopic" {
						require.Equal(t, "1", first.id)
						require.Empty(t, endings)
						pass(time.Minute)
						require.Equal(t, 1, r.stats().Running, "the other one goes on")
						require.Empty(t, endings)
					}
				})
			})
		}
	}
}

func TestACallThatEndsNoLeaseMakesNoExtension(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		e := newExtender(t)
		r, endings := waiting(t, e)
		other := rigOn(t, e, timeout.Config{Node: "other"})
		pass(20 * time.Second)
		r.set("1", 0)
		r.set("2", time.Hour)
		pass(6 * time.Second)
		require.Equal(t, 1, r.stats().Running)
		for _, by := range []*rig{r, other} {
			_, err := by.Set(t.Context(), timeout.Task{Topic: "orders", ID: "1", IfAbsent: true})
			require.NoError(t, err)
			_, err = by.RemoveAll(t.Context(), []timeout.Removal{{Key: key("1"), State: timeout.Dead}, {Key: key("3")}})
			require.NoError(t, err)
			_, err = by.Move(t.Context(), key("1"), time.Now())
			require.NoError(t, err)
			by.set("2", time.Hour)
			answer, err := by.Remove(t.Context(), key("2"))
			require.NoError(t, err)
			require.Equal(t, timeout.Pending, answer.Was)
			by.set("2", time.Hour)
		}
		pass(time.Second)
		require.Zero(t, e.extended.Load())
		require.Empty(t, endings)
		_, err := other.SetAll(t.Context(), []timeout.Task{{Topic: "orders", ID: "1", After: time.Hour}})
		require.NoError(t, err)
		pass(time.Second)
		require.EqualValues(t, 1, e.extended.Load())
		require.Len(t, endings, 1)
	})
}

func TestWhatIsToldOfAnotherTaskMakesNoExtension(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		e := newTeller(t)
		counting := &counter{teller: e}
		r, endings := waiting(t, counting)
		e.tell("")
		r.set("1", 0)
		r.set("2", 0)
		pass(6 * time.Second)
		require.Equal(t, 2, r.stats().Running)
		e.tellEnded(key("3"), timeout.Key{Topic: "others"}, timeout.Key{Topic: "others", ID: "1"})
		pass(time.Second)
		require.Zero(t, counting.extended.Load())
		e.tellEnded(key("2"))
		pass(time.Second)
		require.EqualValues(t, 1, counting.extended.Load())
		e.tellEnded(key(""))
		pass(time.Second)
		require.EqualValues(t, 3, counting.extended.Load())
		e.tell("") // perhaps not all was told before
		pass(time.Second)
		again := counting.extended.Load()
		require.Contains(t, []int64{5, 7}, again, "twice if it is told and asked at the same time: nobody knows which was first")
		pass(5 * time.Second)
		require.Equal(t, again, counting.extended.Load())
		require.Empty(t, endings)
	})
}

// counter counts the extended leases of a teller.
type counter struct {
	*teller
	extended atomic.Int64
}

func (c *counter) Extend(ctx context.Context, tokens []engine.Token, lease time.Duration) ([]bool, error) {
	c.extended.Add(int64(len(tokens)))
	return c.teller.Extend(ctx, tokens, lease)
}

// A set races a lease of the same task: the node hears that the lease has ended before it has it.
func TestALeaseThatEndsBeforeItIsAnsweredIsNotHeld(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		e := newTeller(t)
		r, endings := waiting(t, e)
		e.tell("")
		pass(10 * time.Second)
		e.paused.Store(true)
		r.set("1", 0)
		pass(time.Second)
		require.Equal(t, timeout.Running, r.state("1").State)
		require.Zero(t, r.stats().Running)
		answers, err := e.Remove(t.Context(), []engine.Removal{{Key: key("1")}})
		require.NoError(t, err)
		require.Equal(t, timeout.Running, answers[0].Was)
		e.tellEnded(key("1"))
		pass(time.Second)
		answered := time.Now()
		e.resume <- struct{}{}
		synctest.Wait()
		select {
		case first := <-endings: // it had begun
			require.Equal(t, timeout.ErrLeaseLost, first.cause)
			require.Zero(t, first.at.Sub(answered))
		default:
		}
		require.Zero(t, r.stats().Running)
		require.EqualValues(t, 1, r.stats().Lost)
	})
}

func TestAnExtensionThatFailsIsTriedAgainSoon(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		e := newExtender(t)
		r, endings := waiting(t, e)
		r.set("1", 0)
		pass(6 * time.Second)
		e.fails.Store(true)
		_, err := r.Remove(t.Context(), key("1"))
		require.NoError(t, err)
		pass(3 * time.Second)
		require.Empty(t, endings)
		e.fails.Store(false)
		pass(time.Second)
		require.Len(t, endings, 1)
	})
}

func TestALeaseThatEndsDuringAnExtensionIsAskedForAfterIt(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		e := newExtender(t)
		r, endings := waiting(t, e)
		r.set("1", 0)
		r.set("2", 0)
		pass(6 * time.Second)
		e.takes.Store(int64(time.Second))
		began := time.Now()
		for _, id := range []string{"1", "2"} {
			_, err := r.Remove(t.Context(), key(id))
			require.NoError(t, err)
			pass(100 * time.Millisecond)
		}
		for i, id := range []string{"1", "2"} {
			one := <-endings
			require.Equal(t, id, one.id)
			require.Equal(t, time.Duration(i+1)*time.Second, one.at.Sub(began))
		}
		pass(5 * time.Second)
		require.EqualValues(t, 2, e.extended.Load())
	})
}

// A set ends the lease of an earlier one before a handler has begun: then no handler hangs, although none has moved for long.
func TestATaskSetTwiceAtOnceAfterAQuietTimeRuns(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		r := newRig(t, timeout.Config{Topic: timeout.Topic{Concurrency: 1, Lease: time.Second}})
		runs := 0
		require.NoError(t, r.Handle("orders", func(context.Context, timeout.Task) error { runs++; return nil }))
		for range 300 {
			pass(10 * time.Second)
			runs = 0
			r.set("1", 0)
			r.set("1", 0)
			pass(time.Second)
			require.Positive(t, runs)
		}
	})
}
