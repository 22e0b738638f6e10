package index

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"time"

	"github.com/heartwheel-go/heartwheel/timeout"
)

// Config is what New can be told. The zero value is useful.
type Config struct {
	// Window is how far ahead tasks are put into the index. Zero means 5s; less than Scan is
	// an error.
	Window time.Duration

	// Scan is how often the truth is read for tasks that are due within Window and not in
	// the index: at most that often, and at most as often as Expire is called (see Poll of
	// timeout.Config). It is how late a task can be that another node sets on short notice,
	// where the index is one in memory. Zero means 1s; less than 10ms is an error.
	Scan time.Duration

	// Limit is how many tasks of a topic a scan reads at most: where there are more, the next
	// scan comes when the first half of them is due. Zero means 100,000.
	Limit int

	// Patience is how long the index may take for a call before it is taken for away: for so
	// long it can hold up a call, one each second. What is due is looked for in the truth then.
	// Zero means 1s; less than 10ms is an error.
	Patience time.Duration

	// Logger gets a line where the index fails. Nil means slog's default.
	Logger *slog.Logger
}

const (
	minScan     = 10 * time.Millisecond
	minPatience = 10 * time.Millisecond
)

// Engine is a timeout.Engine made of two. It embeds the truth, which does what has nothing
// to do with time.
type Engine struct {
	timeout.Truth
	index *guard
	cfg   Config
	clock clock

	mu     sync.Mutex              // guards what follows
	leases map[timeout.Token]lease // of the truth's leases, those of the index
	loads  map[string]*load        // by topic
	swept  time.Time               // when leases that had ended were forgotten
	warned time.Time               // when there was a warning

	aligned time.Time // until when the index's topics are taken for those of the truth
}

// lease is one of the index, which ends with that of the truth.
type lease struct {
	token timeout.Token
	until time.Time
}

// New returns an engine that keeps tasks in truth and finds them by index. Both are closed
// with it. An index in memory belongs to this process alone; one in Redis can be shared by
// all that have the same truth, and must have nothing else in it. The error wraps
// timeout.ErrArgument.
func New(truth timeout.Truth, index timeout.Engine, cfg Config) (*Engine, error) {
	if cfg.Window == 0 {
		cfg.Window = 5 * time.Second
	}
	if cfg.Scan == 0 {
		cfg.Scan = time.Second
	}
	if cfg.Limit == 0 {
		cfg.Limit = 100_000
	}
	if cfg.Patience == 0 {
		cfg.Patience = time.Second
	}
	if cfg.Logger == nil {
		cfg.Logger = slog.Default()
	}
	switch {
	case cfg.Scan < minScan:
		return nil, fmt.Errorf("%w: Scan %v, must be at least %v", timeout.ErrArgument, cfg.Scan, minScan)
	case cfg.Window < cfg.Scan:
		return nil, fmt.Errorf("%w: Window %v, must be at least Scan %v", timeout.ErrArgument, cfg.Window, cfg.Scan)
	case cfg.Patience < minPatience:
		return nil, fmt.Errorf("%w: Patience %v, must be at least %v", timeout.ErrArgument, cfg.Patience, minPatience)
	case cfg.Limit < 1:
		return nil, fmt.Errorf("%w: Limit %d, must be positive", timeout.ErrArgument, cfg.Limit)
	}
	return &Engine{
		Truth:  truth,
		index:  &guard{Engine: index, patience: cfg.Patience, log: cfg.Logger},
		cfg:    cfg,
		leases: make(map[timeout.Token]lease),
		loads:  make(map[string]*load),
	}, nil
}

// Set is timeout.Engine's: what is due soon is in the index when it returns.
func (e *Engine) Set(ctx context.Context, tasks []timeout.Task) ([]timeout.Answer, error) {
	answers, err := e.Truth.Set(ctx, tasks)
	if err != nil {
		return nil, err
	}
	e.follow(ctx, answers, func(i int) (timeout.Key, bool) {
		return tasks[i].Key(), answers[i].Err == nil && (!tasks[i].IfAbsent || !lives(answers[i].Was))
	})
	return answers, nil
}

func lives(was timeout.State) bool {
	return was == timeout.Pending || was == timeout.Running || was == timeout.Dead
}

// Lane is timeout.Laned's, as far as the truth is.
func (e *Engine) Lane(key timeout.Key) int {
	if laned, ok := e.Truth.(timeout.Laned); ok {
		return laned.Lane(key)
	}
	return 0
}

// Move is timeout.Engine's.
func (e *Engine) Move(ctx context.Context, moves []timeout.Move) ([]timeout.Answer, error) {
	answers, err := e.Truth.Move(ctx, moves)
	if err != nil {
		return nil, err
	}
	e.follow(ctx, answers, func(i int) (timeout.Key, bool) {
		return moves[i].Key, answers[i].Err == nil && answers[i].Was == timeout.Pending
	})
	return answers, nil
}

// Replay is timeout.Engine's.
func (e *Engine) Replay(ctx context.Context, keys []timeout.Key) ([]timeout.Answer, error) {
	answers, err := e.Truth.Replay(ctx, keys)
	if err != nil {
		return nil, err
	}
	e.follow(ctx, answers, func(i int) (timeout.Key, bool) {
		return keys[i], answers[i].Err == nil && answers[i].Was == timeout.Dead
	})
	return answers, nil
}

// Remove is timeout.Engine's.
func (e *Engine) Remove(ctx context.Context, removals []timeout.Removal) ([]timeout.Answer, error) {
	answers, err := e.Truth.Remove(ctx, removals)
	if err != nil {
		return nil, err
	}
	var gone []timeout.Key
	for i, answer := range answers {
		if answer.Err == nil && answer.Version == 0 {
			gone = append(gone, removals[i].Key)
		}
	}
	e.drop(ctx, gone)
	return answers, nil
}

// follow has the index know what the truth has answered: the times of what is due soon, and
// nothing of what is due later. Where that fails, a scan does it.
func (e *Engine) follow(ctx context.Context, answers []timeout.Answer, changed func(int) (timeout.Key, bool)) {
	now, err := e.Now(ctx)
	if err != nil {
		e.warn("timeout/index: tasks are not in the index, and found by a scan", err)
		return
	}
	horizon := now.Add(e.cfg.Window)
	var soon []timeout.Task
	var later []timeout.Key
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

// entry is what the index has of a task: its version is the payload, and its time is that of
// the index's clock.
func (e *Engine) entry(key timeout.Key, version int64, due time.Time) timeout.Task {
	return timeout.Task{
		Topic:   key.Topic,
		ID:      key.ID,
		Payload: binary.BigEndian.AppendUint64(nil, uint64(version)),
		Due:     e.clock.ofIndex(due),
	}
}

func versionOf(entry timeout.Task) int64 {
	if len(entry.Payload) != 8 {
		return 0 // is no version of anything
	}
	return int64(binary.BigEndian.Uint64(entry.Payload))
}

// warn writes a line about the index, now and then. That it is away was said.
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

// put sets entries in the index, whose topics are made where they are not there. Where the
// index is full it leaves entries out: the answers are there nevertheless.
func (e *Engine) put(ctx context.Context, entries []timeout.Task) ([]timeout.Answer, error) {
	if len(entries) == 0 {
		return nil, nil
	}
	answers, err := e.index.Set(ctx, entries)
	if err == nil && slices.ContainsFunc(answers, func(a timeout.Answer) bool { return errors.Is(a.Err, timeout.ErrNotFound) }) {
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
		case errors.Is(answer.Err, timeout.ErrFull):
			err = answer.Err
		case answer.Err != nil:
			return nil, answer.Err
		}
	}
	return answers, err
}

// attempts is how many times an entry may be leased: the truth counts those that matter.
const attempts = 1 << 30

// makeTopics has the index have the truth's topics, with as many slots. The index is looked
// at first: so what it has and the truth has not is gone, and not just being made.
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
	for _, topic := range there {
		if topic.Slots <= slots[topic.Name] {
			kept[topic.Name] = topic.Slots
			continue
		}
		// It was dropped, and perhaps made anew: what is due is read again.
		if err := e.index.DropTopic(ctx, topic.Name); err != nil && !errors.Is(err, timeout.ErrNotFound) {
			return err
		}
	}
	for _, topic := range wanted {
		if kept[topic.Name] == topic.Slots {
			continue
		}
		if _, err := e.index.SetTopic(ctx, shadow(topic), false); err != nil && !errors.Is(err, timeout.ErrConflict) {
			return err // a conflict is with somebody who knows more
		}
	}
	return nil
}

// shadow is a topic as the index has it. That is never paused: the truth leases nothing while
// it is, and an index in another process would not hear of the end.
func shadow(topic timeout.Topic) timeout.Topic {
	return timeout.Topic{Name: topic.Name, Slots: topic.Slots, Retries: attempts}
}

// drop removes entries from the index. Where that fails, the truth refuses them.
func (e *Engine) drop(ctx context.Context, keys []timeout.Key) {
	if len(keys) == 0 {
		return
	}
	removals := make([]timeout.Removal, len(keys))
	for i, key := range keys {
		removals[i].Key = key
	}
	if _, err := e.index.Remove(ctx, removals); err != nil {
		e.warn("timeout/index: tasks stay in the index, and are refused when due", err)
	}
}

// SetTopic is timeout.Engine's. What the index was not told is mended with the next scan.
func (e *Engine) SetTopic(ctx context.Context, topic timeout.Topic, onlyNew bool) (timeout.Topic, error) {
	kept, err := e.Truth.SetTopic(ctx, topic, onlyNew)
	if err != nil {
		return kept, err
	}
	if _, err := e.index.SetTopic(ctx, shadow(kept), false); err != nil {
		e.unaligned()
		e.warn("timeout/index: a topic is not in the index yet", err)
	}
	return kept, nil
}

// DropTopic is timeout.Engine's.
func (e *Engine) DropTopic(ctx context.Context, name string) error {
	err := e.Truth.DropTopic(ctx, name)
	if dropped := e.index.DropTopic(ctx, name); dropped != nil && !errors.Is(dropped, timeout.ErrNotFound) {
		e.unaligned()
		e.warn("timeout/index: a topic is still in the index", dropped)
	}
	return err
}

// Upkeep is timeout.Engine's, of both.
func (e *Engine) Upkeep(ctx context.Context, term int64) (timeout.Swept, error) {
	swept, err := e.Truth.Upkeep(ctx, term)
	if err != nil {
		return swept, err
	}
	also, err := e.index.Upkeep(ctx, term)
	if err != nil {
		e.warn("timeout/index: no upkeep of the index", err)
	}
	swept.More = swept.More || also.More && err == nil // its dead are none of anybody's
	return swept, nil
}

// Close closes both. It is idempotent.
func (e *Engine) Close() error {
	return errors.Join(e.index.Close(), e.Truth.Close())
}
