package index

import (
	"cmp"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/heartwheel-go/heartwheel/timeout/engine"
)

// Config has the settings of New. The zero value is useful.
type Config struct {
	// Window is how long before its time a task enters the index. Zero means 5s; less than Scan
	// is an error.
	Window time.Duration

	// Scan is the shortest time between two scans of the primary for tasks missing in the index.
	// Scans happen only in Lease (see Poll of timeout.Config). With an index in memory, a task
	// that another node sets on short notice can be late by Scan. Zero means 1s; less than 10ms
	// is an error.
	Scan time.Duration

	// Limit is the largest number of a topic's tasks in one scan. If there are more, or a scan takes
	// longer than CallTimeout, the next one comes when about half of those read are due. Zero means
	// 100,000; a negative Limit is an error.
	Limit int

	// CallTimeout is the longest time of a call of the index. After that, the index counts as away,
	// and the engine asks the primary for due tasks. About once a second, one call tries the index
	// again, and may take this long. Calls that make or drop a topic, and Maintain, may take five
	// times as long. Zero means 1s; less than 10ms or more than 20 years is an error.
	CallTimeout time.Duration

	// Logger gets a line when the index fails. Nil means slog's default.
	Logger *slog.Logger
}

const (
	minScan        = 10 * time.Millisecond
	minCallTimeout = 10 * time.Millisecond
	maxCallTimeout = engine.MaxDuration / longer
)

// Engine is an engine.Engine made of two engines. It embeds the primary for the verbs unrelated to
// time.
type Engine struct {
	engine.Primary
	index *guard
	cfg   Config
	clock clock

	mu      sync.Mutex       // guards the fields below
	loads   map[string]*load // by topic
	warned  time.Time        // time of the last warning
	aligned time.Time        // next check of the index's topics
}

// New returns an engine that keeps tasks in primary and finds them by index. Its Close closes both. An
// index in memory belongs to this process alone. All engines with the same primary can share an index
// in Redis; it must have nothing else in it. Neither may be nil. The error wraps engine.ErrArgument.
func New(primary engine.Primary, index engine.Engine, cfg Config) (*Engine, error) {
	cfg.Window = cmp.Or(cfg.Window, 5*time.Second)
	cfg.Scan = cmp.Or(cfg.Scan, time.Second)
	cfg.Limit = cmp.Or(cfg.Limit, 100_000)
	cfg.CallTimeout = cmp.Or(cfg.CallTimeout, time.Second)
	cfg.Logger = cmp.Or(cfg.Logger, slog.Default())
	switch {
	case primary == nil || index == nil:
		return nil, fmt.Errorf("%w: primary or index is nil, must be an engine each", engine.ErrArgument)
	case cfg.Scan < minScan:
		return nil, fmt.Errorf("%w: Scan %v, must be at least %v", engine.ErrArgument, cfg.Scan, minScan)
	case cfg.Window < cfg.Scan:
		return nil, fmt.Errorf("%w: Window %v, must be at least Scan %v", engine.ErrArgument, cfg.Window, cfg.Scan)
	case cfg.CallTimeout < minCallTimeout:
		return nil, fmt.Errorf("%w: CallTimeout %v, must be at least %v", engine.ErrArgument, cfg.CallTimeout, minCallTimeout)
	case cfg.CallTimeout > maxCallTimeout:
		return nil, fmt.Errorf("%w: CallTimeout %v, must be at most %v", engine.ErrArgument, cfg.CallTimeout, maxCallTimeout)
	case cfg.Limit < 1:
		return nil, fmt.Errorf("%w: Limit %d, must be positive", engine.ErrArgument, cfg.Limit)
	}
	return &Engine{
		Primary: primary,
		index:   &guard{Engine: index, timeout: cfg.CallTimeout, log: cfg.Logger},
		cfg:     cfg,
		loads:   make(map[string]*load),
	}, nil
}

// Set implements engine.Engine. When it returns, tasks due soon are in the index.
func (e *Engine) Set(ctx context.Context, tasks []engine.Task) ([]engine.Answer, error) {
	answers, err := e.Primary.Set(ctx, tasks)
	if err != nil {
		return nil, err
	}
	e.follow(ctx, answers, func(i int) (engine.Key, bool) {
		return tasks[i].Key(), answers[i].Err == nil && (!tasks[i].IfAbsent || !lives(answers[i].Was))
	})
	return answers, nil
}

func lives(was engine.State) bool {
	return was == engine.Pending || was == engine.Running || was == engine.Dead
}

// Move implements engine.Engine.
func (e *Engine) Move(ctx context.Context, moves []engine.Move) ([]engine.Answer, error) {
	answers, err := e.Primary.Move(ctx, moves)
	if err != nil {
		return nil, err
	}
	e.follow(ctx, answers, func(i int) (engine.Key, bool) {
		return moves[i].Key, answers[i].Err == nil && answers[i].Was == engine.Pending
	})
	return answers, nil
}

// Replay implements engine.Engine.
func (e *Engine) Replay(ctx context.Context, keys []engine.Key) ([]engine.Answer, error) {
	answers, err := e.Primary.Replay(ctx, keys)
	if err != nil {
		return nil, err
	}
	e.follow(ctx, answers, func(i int) (engine.Key, bool) {
		return keys[i], answers[i].Err == nil && answers[i].Was == engine.Dead
	})
	return answers, nil
}

// Remove implements engine.Engine.
func (e *Engine) Remove(ctx context.Context, removals []engine.Removal) ([]engine.Answer, error) {
	answers, err := e.Primary.Remove(ctx, removals)
	if err != nil {
		return nil, err
	}
	var gone []engine.Key
	for i, answer := range answers {
		if answer.Err == nil && answer.Version == 0 {
			gone = append(gone, removals[i].Key)
		}
	}
	e.drop(ctx, gone)
	return answers, nil
}

// follow brings the index up to date with the primary's answers. It writes the tasks due soon, and
// removes the tasks due later. If that fails, a scan mends it.
func (e *Engine) follow(ctx context.Context, answers []engine.Answer, changed func(int) (engine.Key, bool)) {
	now, err := e.Now(ctx)
	if err != nil {
		e.warn("timeout/index: tasks are not in the index, and found by a scan", err)
		return
	}
	horizon := now.Add(e.cfg.Window)
	var soon []engine.Task
	var later []engine.Key
	for i, answer := range answers {
		key, ok := changed(i)
		switch {
		case !ok:
		case answer.Due.After(horizon):
			later = append(later, key)
		default:
			soon = append(soon, e.entry(key, answer.Version, answer.Due))
		}
	}
	e.drop(ctx, later)
	if _, err := e.put(ctx, soon); err != nil {
		e.warn("timeout/index: tasks are not in the index, and found by a scan", err)
	}
}

// entry returns the entry of a task for the index. The payload is the version, and the time is by
// the index's clock.
func (e *Engine) entry(key engine.Key, version int64, due time.Time) engine.Task {
	return engine.Task{
		Topic:   key.Topic,
		ID:      key.ID,
		Payload: binary.BigEndian.AppendUint64(nil, uint64(version)),
		Due:     e.clock.ofIndex(due),
	}
}

func versionOf(entry engine.Task) int64 {
	if len(entry.Payload) != 8 {
		return 0 // no task has this version
	}
	return int64(binary.BigEndian.Uint64(entry.Payload))
}

// warn logs a line about the index, at most one per Config.Scan. It says nothing when the index
// rests: the guard has logged that.
func (e *Engine) warn(what string, err error) {
	if errors.Is(err, errAway) {
		return
	}
	e.mu.Lock()
	now := time.Now()
	quiet := now.Sub(e.warned) < e.cfg.Scan
	if !quiet {
		e.warned = now
	}
	e.mu.Unlock()
	if !quiet {
		e.cfg.Logger.Warn(what, "err", err)
	}
}

// put sets entries in the index, and makes missing topics there. If the index is full, some entries
// are left out; put then returns ErrFull along with the answers.
func (e *Engine) put(ctx context.Context, entries []engine.Task) ([]engine.Answer, error) {
	if len(entries) == 0 {
		return nil, nil
	}
	answers, err := e.index.Set(ctx, entries)
	if err == nil && slices.ContainsFunc(answers, func(a engine.Answer) bool { return errors.Is(a.Err, engine.ErrNotFound) }) {
		if err := e.makeTopics(ctx); err != nil {
			return nil, err
		}
		answers, err = e.index.Set(ctx, entries)
	}
	if err != nil {
		return nil, err
	}
	for _, answer := range answers {
		switch {
		case errors.Is(answer.Err, engine.ErrFull):
			err = answer.Err
		case answer.Err != nil:
			return nil, answer.Err
		}
	}
	return answers, err
}

// makeTopics gives the index the primary's topics, with the same number of slots. It reads the
// index first. So a topic found only in the index was dropped, and is not just being made.
func (e *Engine) makeTopics(ctx context.Context) error {
	there, err := e.index.Topics(ctx)
	if err != nil {
		return err
	}
	wanted, err := e.Topics(ctx)
	if err != nil {
		return err
	}
	slots, kept := make(map[string]int, len(wanted)), make(map[string]int, len(there))
	for _, topic := range wanted {
		slots[topic.Name] = topic.Slots
	}
	e.forget(slots)
	for _, topic := range there {
		if topic.Slots <= slots[topic.Name] {
			kept[topic.Name] = topic.Slots
			continue
		}
		// The topic was dropped, and perhaps made again. A scan reads its tasks again.
		if err := e.index.DropTopic(ctx, topic.Name); err != nil && !errors.Is(err, engine.ErrNotFound) {
			return err
		}
	}
	for _, topic := range wanted {
		if kept[topic.Name] == topic.Slots {
			continue
		}
		if _, err := e.index.SetTopic(ctx, shadow(topic), false); err != nil && !errors.Is(err, engine.ErrConflict) {
			return err // a conflict is with a node that has seen more slots
		}
	}
	return nil
}

// forget ends the loads of topics that are not there.
func (e *Engine) forget(there map[string]int) {
	e.mu.Lock()
	defer e.mu.Unlock()
	maps.DeleteFunc(e.loads, func(name string, _ *load) bool {
		_, ok := there[name]
		return !ok
	})
}

// shadow returns a topic for the index. It is never paused: the primary leases nothing during a pause,
// and an index in another process would not hear of the end.
func shadow(topic engine.Topic) engine.Topic {
	return engine.Topic{Name: topic.Name, Slots: topic.Slots}
}

// drop removes entries from the index. If that fails, the primary refuses them later.
func (e *Engine) drop(ctx context.Context, keys []engine.Key) {
	if len(keys) == 0 {
		return
	}
	removals := make([]engine.Removal, len(keys))
	for i, key := range keys {
		removals[i].Key = key
	}
	if _, err := e.index.Remove(ctx, removals); err != nil {
		e.warn("timeout/index: tasks stay in the index, and are refused when due", err)
	}
}

// SetTopic implements engine.Engine. If the index can't be told, the next load mends it.
func (e *Engine) SetTopic(ctx context.Context, topic engine.Topic, onlyNew bool, was ...engine.Topic) (engine.Topic, error) {
	kept, err := e.Primary.SetTopic(ctx, topic, onlyNew, was...)
	if err != nil {
		return kept, err
	}
	if _, err := e.index.SetTopic(ctx, shadow(kept), false); err != nil {
		e.unaligned()
		e.warn("timeout/index: a topic is not in the index yet", err)
	}
	return kept, nil
}

// DropTopic implements engine.Engine.
func (e *Engine) DropTopic(ctx context.Context, name string) error {
	err := e.Primary.DropTopic(ctx, name)
	if dropped := e.index.DropTopic(ctx, name); dropped != nil && !errors.Is(dropped, engine.ErrNotFound) {
		e.unaligned()
		e.warn("timeout/index: a topic is still in the index", dropped)
	}
	return err
}

// Maintain implements engine.Engine. It does the maintenance of both.
func (e *Engine) Maintain(ctx context.Context) (engine.Purged, error) {
	purged, err := e.Primary.Maintain(ctx)
	if err != nil {
		return purged, err
	}
	also, err := e.index.Maintain(ctx)
	if err != nil {
		e.warn("timeout/index: no maintenance of the index", err)
	}
	purged.More = purged.More || also.More && err == nil // dead entries of the index don't count
	return purged, nil
}

// Close closes both. It is idempotent.
func (e *Engine) Close() error {
	return errors.Join(e.index.Close(), e.Primary.Close())
}
