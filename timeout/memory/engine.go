package memory

import (
	"cmp"
	"container/heap"
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/heartwheel-go/heartwheel/internal/shrink"
	"github.com/heartwheel-go/heartwheel/timeout/engine"
)

// Config is the configuration of New. The zero value is useful.
type Config struct {
	// Executions is how many attempts are kept of each existing task. Zero means 20; negative
	// means none.
	Executions int
}

// Engine keeps tasks in memory. It is an engine.Engine, an engine.Log and an engine.Waker.
type Engine struct {
	cfg   Config
	start time.Time

	mu     sync.Mutex // guards the fields below, and all entries
	topics shrink.Map[string, *topic]
	number int64 // the last version or lease number
	ahead  int64 // what clockAhead returned at the last step of the clock, see follow
	nodes  []node
	wakers map[*waker]struct{}
	closed bool
}

// New returns an empty engine.
func New(cfg Config) (*Engine, error) {
	cfg.Executions = cmp.Or(cfg.Executions, 20)
	return &Engine{cfg: cfg, start: time.Now(), wakers: make(map[*waker]struct{})}, nil
}

// topic has the tasks of one name.
type topic struct {
	engine.Topic
	tasks  shrink.Map[string, *entry]
	counts [engine.Removed + 1]int64
	slots  []byTime // pending and running tasks
	ended  byTime   // kept tasks, done or removed
	dead   byTime
}

func now() int64 { return time.Now().UnixMilli() }

// from returns the present, rounded up if a wait begins: no wait may be too short.
func from(after time.Duration) int64 {
	if after > 0 {
		return engine.Millis(time.Now())
	}
	return now()
}

// call does the work of a call with e.mu held, unless the engine is closed or ctx has ended.
func call[R any](ctx context.Context, e *Engine, work func() (R, error)) (result R, err error) {
	if err := ctx.Err(); err != nil {
		return result, err
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.closed {
		return result, engine.ErrClosed
	}
	return work()
}

// each answers each element of a batch in turn.
func each[A, R any](ctx context.Context, e *Engine, batch []A, answer func(A) R) ([]R, error) {
	return ending(ctx, e, batch, nil, answer)
}

// ending is each for a call that can end leases: ended returns those that it has ended, by its answers.
func ending[A, R any](ctx context.Context, e *Engine, batch []A, ended func([]A, []R) []engine.Key, answer func(A) R) ([]R, error) {
	return call(ctx, e, func() ([]R, error) {
		answers := make([]R, len(batch))
		for i, one := range batch {
			answers[i] = answer(one)
		}
		if ended != nil && len(e.wakers) > 0 {
			e.tell(ended(batch, answers))
		}
		return answers, nil
	})
}

// in does the work of a call for one topic.
func in[R any](ctx context.Context, e *Engine, name string, work func(*topic) R) (R, error) {
	return call(ctx, e, func() (result R, _ error) {
		if t := e.topics.Get(name); t != nil {
			t.Topic = t.At(now())
			return work(t), nil
		}
		return result, noTopic(name)
	})
}

func noTopic(name string) error { return fmt.Errorf("%w: topic %q", engine.ErrNotFound, name) }

// SetTopic is engine.Engine's.
func (e *Engine) SetTopic(ctx context.Context, wanted engine.Topic, onlyNew bool, was ...engine.Topic) (engine.Topic, error) {
	return call(ctx, e, func() (engine.Topic, error) {
		t := cmp.Or(e.topics.Get(wanted.Name), new(topic))
		kept, changes, err := wanted.In(t.Topic, now(), onlyNew, was...)
		if changes {
			t.Topic = kept.Clone()
			t.grow()
			e.topics.Set(wanted.Name, t)
		}
		return kept.Clone(), err
	})
}

// Pause is engine.Engine's.
func (e *Engine) Pause(ctx context.Context, name string, paused bool, until time.Time) (engine.Topic, error) {
	return in(ctx, e, name, func(t *topic) engine.Topic {
		t.Paused, t.PausedUntil = paused, until
		t.Topic = t.At(now())
		return t.Clone()
	})
}

// grow deals the tasks among the present number of slots.
func (t *topic) grow() {
	if len(t.slots) == t.Slots {
		return
	}
	before := t.slots
	t.slots = make([]byTime, t.Slots)
	for _, h := range before {
		for _, en := range h {
			heap.Push(t.slotOf(en), en)
		}
	}
}

// slotOf returns the heap for an entry that is pending or running.
func (t *topic) slotOf(en *entry) *byTime { return &t.slots[engine.Slot(en.id, t.Slots)] }

// Topics is engine.Engine's.
func (e *Engine) Topics(ctx context.Context) ([]engine.Topic, error) {
	return call(ctx, e, func() ([]engine.Topic, error) {
		topics := make([]engine.Topic, 0, e.topics.Len())
		for _, t := range e.topics.All() {
			topics = append(topics, t.At(now()).Clone())
		}
		slices.SortFunc(topics, func(a, b engine.Topic) int { return cmp.Compare(a.Name, b.Name) })
		return topics, nil
	})
}

// DropTopic is engine.Engine's.
func (e *Engine) DropTopic(ctx context.Context, name string) error {
	_, err := in(ctx, e, name, func(t *topic) bool {
		if t.counts[engine.Running] > 0 {
			e.tell([]engine.Key{{Topic: name}})
		}
		e.topics.Delete(t.Name)
		return true
	})
	return err
}

// Count is engine.Engine's.
func (e *Engine) Count(ctx context.Context, name string) (engine.Counts, error) {
	return in(ctx, e, name, func(t *topic) (counts engine.Counts) {
		for state, n := range t.counts {
			counts.Add(engine.State(state), n)
		}
		at := now()
		for _, h := range t.slots {
			h.until(at, 0, func(en *entry) {
				if en.state == engine.Pending {
					counts.Due++
					counts.Lag = max(counts.Lag, time.Duration(at-en.at)*time.Millisecond)
				}
			})
		}
		return counts
	})
}

// Now is engine.Engine's.
func (e *Engine) Now(ctx context.Context) (time.Time, error) {
	return call(ctx, e, func() (time.Time, error) { return time.UnixMilli(now()), nil })
}

// Ready is engine.Engine's.
func (e *Engine) Ready(ctx context.Context) error {
	_, err := e.Now(ctx)
	return err
}

// waker is a call of Wake.
type waker struct {
	wake  func(topic string)
	ended func(key engine.Key)
}

// Wake is engine.Waker's: it tells of each task that waits as the first of its slot from now on.
func (e *Engine) Wake(ctx context.Context, wake func(topic string), ended func(key engine.Key)) error {
	waker := &waker{wake, ended}
	if _, err := call(ctx, e, func() (bool, error) {
		e.wakers[waker] = struct{}{}
		return true, nil
	}); err != nil {
		return err
	}
	wake("")
	<-ctx.Done()
	e.mu.Lock()
	delete(e.wakers, waker)
	e.mu.Unlock()
	return nil
}

// Close is engine.Engine's. All tasks are gone.
func (e *Engine) Close() error {
	e.mu.Lock()
	e.closed = true
	e.topics = shrink.Map[string, *topic]{}
	e.mu.Unlock()
	return nil
}
