package sqlite

import (
	"context"
	"time"
)

const (
	wakeLook = 50 * time.Millisecond  // between two looks for changes of others
	wakeRest = 250 * time.Millisecond // after a change, so that much writing of others costs no more than asking for it
)

// Wake is engine.Waker's. SQLite counts the changes of other connections (PRAGMA data_version), and does not
// say what they were: so all topics are woken. A program that keeps the file to itself is not woken by its
// own changes, since its centre knows of them. If there are two centres with one Engine, both are.
func (e *Engine) Wake(ctx context.Context, wake func(topic string)) error {
	e.wakers.Add(1)
	defer e.wakers.Add(-1)
	seen, err := e.changes(ctx)
	if err != nil {
		return e.wrap("listening", err)
	}
	wake("")
	for pause := wakeLook; ; {
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(pause):
		}
		latest, err := e.changes(ctx)
		if ctx.Err() != nil {
			return nil
		}
		var names []string
		if pause = wakeLook; err == nil && latest != seen {
			seen, pause = latest, wakeRest
			names, err = e.topicNames(ctx)
		}
		if err != nil {
			return e.wrap("listening", err)
		}
		for _, name := range names {
			wake(name)
		}
	}
}

// changes is different after each change that a centre may not know of.
type changes struct{ others, own int64 }

func (e *Engine) changes(ctx context.Context) (c changes, err error) {
	if err := e.enter(ctx); err != nil {
		return c, err
	}
	defer e.use.RUnlock()
	if e.wakers.Load() > 1 {
		c.own = e.changed.Load()
	}
	select {
	case e.lock <- struct{}{}:
		defer func() { <-e.lock }()
	case <-ctx.Done():
		return c, ctx.Err()
	}
	_, err = one(context.Background(), e.writer, "PRAGMA data_version", nil, &c.others)
	return c, err
}

func (e *Engine) topicNames(ctx context.Context) ([]string, error) {
	all, err := e.Topics(ctx)
	names := make([]string, len(all))
	for i, topic := range all {
		names[i] = topic.Name
	}
	return names, err
}
