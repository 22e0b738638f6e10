package index

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/heartwheel-go/heartwheel/timeout/engine"
)

// loadPage is the number of keys in one read.
const loadPage = 1000

// load notes how far a topic has been read.
type load struct {
	slots   []int
	next    time.Time // time of the next read
	horizon time.Time // all waiting tasks due before this time are in the index
}

// load reads the tasks due soon, if it is time for another read. It returns the horizon: all tasks
// due before it are in the index.
func (e *Engine) load(ctx context.Context, topic string, slots []int, now time.Time) (time.Time, error) {
	e.mu.Lock()
	l := e.loads[topic]
	if l == nil {
		l = new(load)
		e.loads[topic] = l
	}
	if now.Before(l.next) && l.next.Sub(now) <= e.cfg.Scan && slices.Equal(l.slots, slots) && (l.slots == nil) == (slots == nil) {
		horizon := l.horizon
		e.mu.Unlock()
		return horizon, nil
	}
	l.slots, l.next = slices.Clone(slots), now.Add(e.cfg.Scan)
	e.mu.Unlock()

	next, horizon, err := time.Time{}, time.Time{}, e.align(ctx, now)
	if err == nil {
		next, horizon, err = e.scan(ctx, topic, slots, now)
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	if err != nil {
		l.next = time.Time{}
		return time.Time{}, err
	}
	l.next, l.horizon = next, horizon
	return horizon, nil
}

// align gives the index the primary's topics, once per Config.Scan. Another node may have dropped or
// grown a topic, and this node's index was not told.
func (e *Engine) align(ctx context.Context, now time.Time) error {
	e.mu.Lock()
	if now.Before(e.aligned) && e.aligned.Sub(now) <= e.cfg.Scan {
		e.mu.Unlock()
		return nil
	}
	e.aligned = now.Add(e.cfg.Scan)
	e.mu.Unlock()
	err := e.makeTopics(ctx)
	if err != nil {
		e.unaligned()
	}
	return err
}

// unaligned makes the next load align the topics.
func (e *Engine) unaligned() {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.aligned = time.Time{}
}

// scan adds to the index the missing tasks due within the window. It returns the time of the next
// scan, and the horizon: it has seen all tasks due before then.
func (e *Engine) scan(ctx context.Context, topic string, slots []int, now time.Time) (next, horizon time.Time, err error) {
	next, horizon = now.Add(e.cfg.Scan), now.Add(e.cfg.Window)
	cursor, began := "", time.Now()
	for read := 0; ; {
		limit := min(loadPage, e.cfg.Limit-read)
		page, err := e.ScanBefore(ctx, topic, slots, horizon, cursor, limit)
		if err != nil {
			return next, horizon, err
		}
		entries := make([]engine.Task, len(page.Wanted))
		for i, wanted := range page.Wanted {
			entries[i] = e.entry(engine.Key{Topic: topic, ID: wanted.ID}, wanted.Version, wanted.At)
			entries[i].IfAbsent = true
		}
		err = e.add(ctx, entries)
		if errors.Is(err, engine.ErrFull) {
			return next, earliest(page), nil // the index has left out tasks of this page
		}
		if err != nil {
			return next, horizon, err
		}
		read += len(entries)
		if page.Next == "" {
			return next, horizon, nil
		}
		if read >= e.cfg.Limit || time.Since(began) > e.cfg.CallTimeout {
			// There are more tasks, and the caller waits: read again when about half of these are due, but at most
			// every minScan.
			return now.Add(min(max(page.Until.Sub(now)/2, minScan), e.cfg.Scan)), page.Until, nil
		}
		cursor = page.Next
	}
}

// earliest returns a time before which no task of a page or a later one is due.
func earliest(page engine.ScanPage) time.Time {
	first := page.Wanted[0].At
	for _, wanted := range page.Wanted {
		first = earlier(first, wanted.At)
	}
	if page.Next != "" {
		first = earlier(first, page.Until)
	}
	return first
}

// add puts entries into the index. It writes missing entries, and entries that wait there for
// another time: the index was not told of the newer version, or of the end of a lease.
func (e *Engine) add(ctx context.Context, entries []engine.Task) error {
	answers, full := e.put(ctx, entries)
	if full != nil && !errors.Is(full, engine.ErrFull) {
		return full
	}
	var wrong []engine.Task
	for i, answer := range answers {
		if answer.Err == nil && answer.Was == engine.Pending && answer.Due.UnixMilli() != entries[i].Due.UnixMilli() {
			entries[i].IfAbsent = false
			wrong = append(wrong, entries[i])
		}
	}
	if _, err := e.put(ctx, wrong); err != nil {
		return err
	}
	return full
}

// reload makes the next call read a topic.
func (e *Engine) reload(topic string) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if l := e.loads[topic]; l != nil {
		l.next = time.Time{}
	}
}

// reloadAll makes the next calls read all topics.
func (e *Engine) reloadAll() {
	e.mu.Lock()
	defer e.mu.Unlock()
	for _, l := range e.loads {
		l.next = time.Time{}
	}
}

// Wake implements engine.Waker. It wakes if the index or the primary is a Waker. The primary tells of ended leases.
func (e *Engine) Wake(ctx context.Context, wake func(topic string), ended func(key engine.Key)) error {
	given := ctx
	ctx, cancel := context.WithCancel(given)
	defer cancel()
	done := make(chan error, 2)
	running := 0
	listen := func(to engine.Engine, wake func(topic string), ended func(key engine.Key)) {
		if waker, ok := to.(engine.Waker); ok {
			running++
			go func() { done <- waker.Wake(ctx, wake, ended) }()
		}
	}
	listen(e.index.Engine, func(topic string) {
		if topic != "" { // the index hears only this process: it can't promise all news
			wake(topic)
		}
	}, func(engine.Key) {}) // its leases are no leases of tasks
	listen(e.Primary, func(topic string) {
		if topic == "" {
			e.reloadAll()
		} else {
			e.reload(topic)
		}
		wake(topic)
	}, ended)
	if running == 0 {
		<-ctx.Done()
	}
	var failure error
	for range running {
		failure = errors.Join(failure, <-done)
		cancel()
	}
	if given.Err() != nil {
		return nil // ctx has ended: a Waker that just begins fails then
	}
	return failure
}

// Executions implements engine.Log if the primary does. Otherwise it returns engine.ErrUnsupported.
func (e *Engine) Executions(ctx context.Context, key engine.Key, limit int) ([]engine.Execution, error) {
	log, ok := e.Primary.(engine.Log)
	if !ok {
		return nil, engine.ErrUnsupported
	}
	return log.Executions(ctx, key, limit)
}
