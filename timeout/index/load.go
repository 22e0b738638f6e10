package index

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/heartwheel-go/heartwheel/timeout"
)

// loadPage is how many keys are read at a time.
const loadPage = 1000

// load is how far a topic has been read.
type load struct {
	slots   []int
	next    time.Time // when it is read again
	horizon time.Time // before which all that waits is in the index

	// outlasting are leases of the index, by id, with their ends: by the last scan they last longer
	// than the truth says.
	outlasting map[string]time.Time
}

// load reads what is due soon where that is to be done again, and returns up to which time
// the index has all.
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
		next, horizon, err = e.scan(ctx, l, topic, slots, now)
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

// align has the index have the truth's topics where it has not been looked at for a while: what
// another node has dropped or had grow, the index of this one was not told.
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

// unaligned has the index's topics be looked at with the next load.
func (e *Engine) unaligned() {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.aligned = time.Time{}
}

// scan adds what is due within the window and not in the index. It returns when to scan again,
// and up to which time it has seen all.
func (e *Engine) scan(ctx context.Context, l *load, topic string, slots []int, now time.Time) (next, horizon time.Time, err error) {
	next, horizon = now.Add(e.cfg.Scan), now.Add(e.cfg.Window)
	cursor := ""
	outlasting := make(map[string]time.Time)
	defer func() {
		e.mu.Lock()
		l.outlasting = outlasting
		e.mu.Unlock()
	}()
	for read := 0; ; {
		limit := min(loadPage, e.cfg.Limit-read)
		page, err := e.Upcoming(ctx, topic, slots, horizon, cursor, limit)
		if err != nil {
			return next, horizon, err
		}
		entries := make([]timeout.Task, len(page.Wanted))
		for i, wanted := range page.Wanted {
			entries[i] = e.entry(timeout.Key{Topic: topic, ID: wanted.ID}, wanted.Version, wanted.At)
			entries[i].IfAbsent = true
		}
		err = e.add(ctx, l, outlasting, entries)
		if errors.Is(err, timeout.ErrFull) {
			return next, page.Wanted[0].At, nil // some are left out from here on
		}
		if err != nil {
			return next, horizon, err
		}
		read += len(entries)
		if page.Next == "" {
			return next, horizon, nil
		}
		if read >= e.cfg.Limit {
			// There is more: read again when half of it is due, but not all the time.
			last := page.Wanted[len(page.Wanted)-1].At
			return now.Add(min(max(last.Sub(now)/2, minScan), e.cfg.Scan)), last, nil
		}
		cursor = page.Next
	}
}

// add puts entries into the index that are not there, or wait there for another time: that of
// an older version, whose successor the index was not told of. It does so, too, if the index has an
// old lease of a task, and was not told of its end. Such leases are noted in outlasting.
func (e *Engine) add(ctx context.Context, l *load, outlasting map[string]time.Time, entries []timeout.Task) error {
	answers, full := e.put(ctx, entries)
	if full != nil && !errors.Is(full, timeout.ErrFull) {
		return full
	}
	var wrong, leased []timeout.Task
	for i, answer := range answers {
		entries[i].IfAbsent = false
		switch {
		case answer.Err != nil:
		case answer.Was == timeout.Pending && answer.Due.UnixMilli() != entries[i].Due.UnixMilli():
			wrong = append(wrong, entries[i])
		case answer.Was == timeout.Running:
			leased = append(leased, entries[i])
		}
	}
	old, err := e.outlasted(ctx, l, outlasting, leased)
	if err != nil {
		return err
	}
	if _, err := e.put(ctx, append(wrong, old...)); err != nil {
		return err
	}
	return full
}

// outlasted returns the entries whose lease in the index lasts longer than the truth says, by two scans:
// between them a claim comes to its end.
func (e *Engine) outlasted(ctx context.Context, l *load, outlasting map[string]time.Time, leased []timeout.Task) (old []timeout.Task, err error) {
	if len(leased) == 0 {
		return nil, nil
	}
	keys := make([]timeout.Key, len(leased))
	for i, entry := range leased {
		keys[i] = entry.Key()
	}
	there, err := e.index.Get(ctx, keys)
	if err != nil {
		return nil, err
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	for i, task := range there {
		if task.State != timeout.Running || !task.Until.After(leased[i].Due.Add(clockNoise)) {
			continue
		}
		outlasting[task.ID] = task.Until
		if before, ok := l.outlasting[task.ID]; ok && before.Equal(task.Until) {
			old = append(old, leased[i])
		}
	}
	return old, nil
}

// reload has a topic be read at the next call.
func (e *Engine) reload(topic string) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if l := e.loads[topic]; l != nil {
		l.next = time.Time{}
	}
}

// reloadAll has all topics be read at the next call.
func (e *Engine) reloadAll() {
	e.mu.Lock()
	defer e.mu.Unlock()
	for _, l := range e.loads {
		l.next = time.Time{}
	}
}

// Wake is timeout.Waker's, where the index or the truth is one.
func (e *Engine) Wake(ctx context.Context, wake func(topic string)) error {
	indexed, one := e.index.Engine.(timeout.Waker)
	truth, other := e.Truth.(timeout.Waker)
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	ended := make(chan error, 2)
	running := 0
	if one {
		running++
		go func() {
			ended <- indexed.Wake(ctx, func(topic string) {
				if topic != "" { // the index hears of this process only
					wake(topic)
				}
			})
		}()
	}
	if other {
		running++
		go func() {
			ended <- truth.Wake(ctx, func(topic string) {
				if topic == "" {
					e.reloadAll()
				} else {
					e.reload(topic)
				}
				wake(topic)
			})
		}()
	}
	if running == 0 {
		<-ctx.Done()
		return nil
	}
	var failure error
	for range running {
		failure = errors.Join(failure, <-ended)
		cancel()
	}
	return failure
}

// Executions is timeout.Log's, where the truth has one.
func (e *Engine) Executions(ctx context.Context, key timeout.Key, limit int) ([]timeout.Execution, error) {
	log, ok := e.Truth.(timeout.Log)
	if !ok {
		return nil, timeout.ErrUnsupported
	}
	return log.Executions(ctx, key, limit)
}
