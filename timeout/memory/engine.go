package memory

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/heartwheel-go/heartwheel/timeout"
	"github.com/heartwheel-go/heartwheel/wheel"
)

// Config is what New can be told. The zero value is useful.
type Config struct {
	// Tick is the wheel's: tasks are up to two ticks late. Zero means 10ms; less than 1ms is
	// an error.
	Tick time.Duration

	// Executions is how many attempts are kept of each task that is there. Zero means 20;
	// negative means none.
	Executions int
}

// Engine keeps tasks in memory. It is a timeout.Engine, a timeout.Log and a timeout.Waker.
type Engine struct {
	cfg   Config
	wheel *wheel.WheelOf[*entry]

	mu     sync.Mutex // guards what follows, and all entries
	topics map[string]*topic
	number int64 // the last version or lease number
	nodes  []node
	term   int64
	wakers map[*func(string)]struct{}
	closed bool
}

// New returns an empty engine. The error wraps timeout.ErrArgument.
func New(cfg Config) (*Engine, error) {
	if cfg.Tick == 0 {
		cfg.Tick = 10 * time.Millisecond
	}
	if cfg.Executions == 0 {
		cfg.Executions = 20
	}
	e := &Engine{cfg: cfg, topics: make(map[string]*topic), wakers: make(map[*func(string)]struct{})}
	// A stall of this process is no reason to be late: what is due then is due.
	w, err := wheel.NewOf(wheel.Config{Tick: cfg.Tick, Stall: -1}, wheel.Funcs[*entry]{Due: e.look})
	if err != nil {
		return nil, fmt.Errorf("%w: Tick %v: %w", timeout.ErrArgument, cfg.Tick, err)
	}
	e.wheel = w
	return e, nil
}

// topic has the tasks of one name.
type topic struct {
	timeout.Topic
	tasks  map[string]*entry
	counts [timeout.Removed + 1]int64
	ready  []byTime // by slot: what is due and not leased
	ended  byTime   // what is done or removed, and kept
	dead   byTime
	fences []fence // by slot
}

// fence is the highest term that somebody has leased with.
type fence struct {
	term int64
	at   int64
}

func now() int64 { return time.Now().UnixMilli() }

// enter locks the engine, where it is open and ctx has not ended.
func (e *Engine) enter(ctx context.Context) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	e.mu.Lock()
	if e.closed {
		e.mu.Unlock()
		return timeout.ErrClosed
	}
	return nil
}

// topic returns a topic; e.mu must be held.
func (e *Engine) topic(name string) (*topic, error) {
	if t := e.topics[name]; t != nil {
		return t, nil
	}
	return nil, fmt.Errorf("%w: topic %q", timeout.ErrNotFound, name)
}

// SetTopic is timeout.Engine's.
func (e *Engine) SetTopic(ctx context.Context, wanted timeout.Topic, onlyNew bool) (timeout.Topic, error) {
	if err := e.enter(ctx); err != nil {
		return timeout.Topic{}, err
	}
	defer e.mu.Unlock()
	t := e.topics[wanted.Name]
	switch {
	case t == nil:
		t = &topic{tasks: make(map[string]*entry)}
		e.topics[wanted.Name] = t
	case onlyNew:
		return t.Topic, nil
	default:
		if wanted.Slots == 0 {
			wanted.Slots = t.Slots
		}
		if wanted.Slots < t.Slots {
			return t.Topic, fmt.Errorf("%w: Slots %d of topic %s, must be at least %d", timeout.ErrConflict, wanted.Slots, wanted.Name, t.Slots)
		}
		wanted.Paused = t.Paused
	}
	t.Topic = wanted.WithDefaults()
	t.grow()
	return t.Topic, nil
}

// Pause is timeout.Engine's.
func (e *Engine) Pause(ctx context.Context, name string, paused bool) (timeout.Topic, error) {
	if err := e.enter(ctx); err != nil {
		return timeout.Topic{}, err
	}
	defer e.mu.Unlock()
	t, err := e.topic(name)
	if err != nil {
		return timeout.Topic{}, err
	}
	t.Paused = paused
	return t.Topic, nil
}

// grow deals out what is ready among as many slots as there are now.
func (t *topic) grow() {
	if len(t.ready) == t.Slots {
		return
	}
	t.fences = make([]fence, t.Slots)
	before := t.ready
	t.ready = make([]byTime, t.Slots)
	for _, h := range before {
		for _, en := range h {
			t.heapOf(en).add(en)
		}
	}
}

// heapOf returns the heap for an entry of that state, if it is in one.
func (t *topic) heapOf(en *entry) *byTime {
	switch en.state {
	case timeout.Dead:
		return &t.dead
	case timeout.Done, timeout.Removed:
		return &t.ended
	default:
		return &t.ready[timeout.Slot(en.id, t.Slots)]
	}
}

// Topics is timeout.Engine's.
func (e *Engine) Topics(ctx context.Context) ([]timeout.Topic, error) {
	if err := e.enter(ctx); err != nil {
		return nil, err
	}
	defer e.mu.Unlock()
	topics := make([]timeout.Topic, 0, len(e.topics))
	for _, name := range slices.Sorted(maps.Keys(e.topics)) {
		topics = append(topics, e.topics[name].Topic)
	}
	return topics, nil
}

// DropTopic is timeout.Engine's.
func (e *Engine) DropTopic(ctx context.Context, name string) error {
	if err := e.enter(ctx); err != nil {
		return err
	}
	defer e.mu.Unlock()
	t, err := e.topic(name)
	if err != nil {
		return err
	}
	for _, en := range t.tasks {
		en.timer.Remove()
		en.state = timeout.None
	}
	delete(e.topics, name)
	return nil
}

// Count is timeout.Engine's.
func (e *Engine) Count(ctx context.Context, name string) (timeout.Counts, error) {
	if err := e.enter(ctx); err != nil {
		return timeout.Counts{}, err
	}
	defer e.mu.Unlock()
	t, err := e.topic(name)
	if err != nil {
		return timeout.Counts{}, err
	}
	var counts timeout.Counts
	for state, n := range t.counts {
		counts.Add(timeout.State(state), n)
	}
	for _, h := range t.ready {
		for _, en := range h {
			if en.state == timeout.Pending {
				counts.Due++
				counts.Lag = max(counts.Lag, time.Duration(now()-en.at)*time.Millisecond)
			}
		}
	}
	return counts, nil
}

// Now is timeout.Engine's.
func (e *Engine) Now(ctx context.Context) (time.Time, error) {
	if err := e.enter(ctx); err != nil {
		return time.Time{}, err
	}
	defer e.mu.Unlock()
	return time.UnixMilli(now()), nil
}

// Wake is timeout.Waker's: it tells of each task that becomes due.
func (e *Engine) Wake(ctx context.Context, wake func(topic string)) error {
	if err := e.enter(ctx); err != nil {
		return err
	}
	e.wakers[&wake] = struct{}{}
	e.mu.Unlock()
	wake("")
	<-ctx.Done()
	e.mu.Lock()
	delete(e.wakers, &wake)
	e.mu.Unlock()
	return nil
}

// Close is timeout.Engine's. All tasks are gone.
func (e *Engine) Close() error {
	e.mu.Lock()
	e.closed = true
	e.topics = nil
	e.mu.Unlock()
	e.wheel.Stop()
	return nil
}
